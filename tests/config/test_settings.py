from __future__ import annotations

from freetrain.config import Config, find_setting
from freetrain.config.settings import keeping_what_needs_restart


def takes(path: str) -> str:
    setting = find_setting(path)
    assert setting is not None
    return setting.takes


def test_what_a_setting_takes_is_said_in_a_few_words() -> None:
    assert takes("lend.mode") == "observe, advise, act"
    assert takes("pace.poll") == "a duration, 00:00:01 or more"
    assert takes("lend.half_life") == "a duration, 01:00:00 or more"
    assert takes("lend.spare_suspendable") == "true or false"
    assert takes("lend.reserve_nodes") == "a whole number"
    assert takes("lend.shares") == "a table of numbers"
    assert takes("log.levels") == "a table of debug, info, warning, error; a name with dots in quotes"
    assert takes("pace.failures_to_pause") == "a whole number, 1 or more"
    assert find_setting("lend.nope") is None


def test_a_reload_keeps_what_a_running_daemon_cannot_change() -> None:
    old = Config.model_validate({"slurm": {"partition": "old"}, "pace": {"poll": 7.0}})
    new = Config.model_validate(
        {
            "slurm": {"partition": "new"},
            "pace": {"poll": 9.0, "back_off": 5.0},
            "lend": {"launcher": "submit", "mode": "act"},
            "state": {"directory": "/new"},
        }
    )
    kept = keeping_what_needs_restart(new, old)
    assert (kept.slurm, kept.state) == (old.slurm, old.state)
    assert (kept.pace.poll, kept.pace.back_off) == (7.0, 5.0)
    assert (kept.lend.launcher, kept.lend.mode) == ("steer", "act")
