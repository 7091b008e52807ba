"""A real Slurm on one machine, below one directory: for trying freetrain, developing it, and for its tests."""

from freetrain.lab.lab import Lab
from freetrain.lab.options import LabOptions
from freetrain.lab.status import LabStatus

__all__ = ["Lab", "LabOptions", "LabStatus"]
