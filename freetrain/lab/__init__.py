"""A real Slurm on one machine, below one directory: for trying freetrain, developing it, and for its tests."""

from freetrain.lab.lab import Lab, LabStatus
from freetrain.lab.options import LabOptions

__all__ = ["Lab", "LabOptions", "LabStatus"]
