"""The daemon's configuration: one model, its files, and the texts that are made from it.

In come ``freetrain.toml`` and its drop-ins, out comes a frozen, checked ``Config``, or a ``ConfigError`` that
names the file, the setting and, where one is known, the line that mends it. The example file, the reference page
and the man page are made from the same model, so that none of them can differ from what is checked.

A new setting is a line in ``sections.py``: type, default, meaning, bounds. ``python -m freetrain.config`` then
writes the texts again.

Files in reading order:

- ``values.py``: sections and kinds of values (durations, node lists, addresses), each checked where it is read.
- ``sections.py``: the tables of the file.
- ``settings.py``: the whole model, its settings as a list, and the files: the mistakes in them, and where each
  value comes from.
- ``documents.py``: the texts; ``__main__.py`` writes them.
"""

from freetrain.config.sections import FreezeSettings, Log, MetricsSettings, Prices, Slurm, WebSettings
from freetrain.config.settings import (
    CONFIG_VARIABLE,
    DEFAULT_PATH,
    Config,
    ConfigError,
    Loaded,
    find_mistakes,
    find_setting,
    find_sources,
    load_config,
    setting_of,
    settings,
)

__all__ = [
    "CONFIG_VARIABLE", "DEFAULT_PATH", "Config", "ConfigError", "FreezeSettings", "Loaded", "Log",
    "MetricsSettings", "Prices", "Slurm", "WebSettings", "find_mistakes", "find_setting", "find_sources",
    "load_config", "setting_of", "settings",
]  # fmt: skip
