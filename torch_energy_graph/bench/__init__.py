"""Benchmarks: protocols, baselines, a resumable runner and its reports."""

from torch_energy_graph.bench import baselines, energy
from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.config import BenchConfig, Group, load_config
from torch_energy_graph.bench.protocol import (
    PROTOCOLS,
    OfficialProtocol,
    Protocol,
    Split,
    StratifiedProtocol,
    get_protocol,
)
from torch_energy_graph.bench.registry import (
    Prediction,
    Task,
    get_model,
    load_task,
    register_dataset,
    register_model,
)
from torch_energy_graph.bench.report import write_report
from torch_energy_graph.bench.runner import (
    Summary,
    evaluate,
    is_finished,
    plan,
    recheck,
    run,
)
from torch_energy_graph.bench.store import RunFolder, Unit

__all__ = [
    'BenchConfig',
    'ConfigError',
    'Group',
    'OfficialProtocol',
    'PROTOCOLS',
    'Prediction',
    'Protocol',
    'RunFolder',
    'Split',
    'StratifiedProtocol',
    'Summary',
    'Task',
    'Unit',
    'baselines',
    'energy',
    'evaluate',
    'get_model',
    'get_protocol',
    'is_finished',
    'load_config',
    'load_task',
    'plan',
    'recheck',
    'register_dataset',
    'register_model',
    'run',
    'write_report',
]
