"""A detector on a user's own tables: trained, measured and reported."""

from torch_energy_graph.bench.fraud.evaluation import Evaluation, evaluate_run
from torch_energy_graph.bench.fraud.report import html_report
from torch_energy_graph.bench.fraud.run import (
    FraudConfig,
    FraudRun,
    FraudTraining,
    file_digest,
    fraud_config,
    is_fraud_run,
    load_run,
    model_folder,
    table_files,
)

__all__ = [
    'Evaluation',
    'FraudConfig',
    'FraudRun',
    'FraudTraining',
    'evaluate_run',
    'file_digest',
    'fraud_config',
    'html_report',
    'is_fraud_run',
    'load_run',
    'model_folder',
    'table_files',
]
