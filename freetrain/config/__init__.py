"""The daemon's configuration: one model, its files, and the texts that are made from it."""

from freetrain.config.loading import (
    CONFIG_VARIABLE,
    DEFAULT_PATH,
    ConfigError,
    Loaded,
    find_mistakes,
    find_sources,
    load_config,
)
from freetrain.config.model import Config
from freetrain.config.sections.prices import Prices
from freetrain.config.sections.slurm import Slurm
from freetrain.config.sections.telling import Log, Metrics
from freetrain.config.settings import Setting, find_setting, settings, value_of

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_PATH",
    "Config",
    "ConfigError",
    "Loaded",
    "Log",
    "Metrics",
    "Prices",
    "Setting",
    "Slurm",
    "find_mistakes",
    "find_setting",
    "find_sources",
    "load_config",
    "settings",
    "value_of",
]
