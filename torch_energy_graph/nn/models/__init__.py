"""Complete models."""

from .energy_anomaly_detector import EnergyAnomalyDetector

__all__ = ['EnergyAnomalyDetector']
