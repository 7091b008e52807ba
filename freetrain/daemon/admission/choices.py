"""What settings name, looked for when they are read: a policy and an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from freetrain.config import Config, ConfigError
from freetrain.core.aim import no_watts, read_aim
from freetrain.core.objectives import worth_per_s
from freetrain.core.trainer import Trainer
from freetrain.errors import InputError
from freetrain.policies import find_finisher, find_placer, find_policy
from freetrain.policies.aiming import unheeded
from freetrain.policies.gadget.links import CanReserve
from freetrain.policies.registry import renamed

_SMALL = Trainer("trial", ((1, 1.0), (2, 1.9), (4, 3.5)), max_nodes=4)


def check_choices(config: Config) -> None:
    """All that the settings name is there; a site's own objective gives values for a small trainer.

    Raises:
        ConfigError: something is not; the sentence says which setting.
    """
    for error in wrong_choices(config).values():
        raise error


def wrong_choices(config: Config) -> Mapping[str, ConfigError]:
    """Setting → what is wrong with it."""
    worth_per_s.cache_clear()  # the objective may have been changed since
    wrong = {
        "decide.policy": _why_not(lambda: find_policy(config.decide.policy_with_options)),
        "decide.place": _why_not(lambda: find_placer(config.decide.place)),
        "decide.finish": _why_not(lambda: find_finisher(config.decide.finish)),
        "decide.objective": _why_not(lambda: _check_objective(config)),
    }
    return {
        setting: ConfigError(f"{setting}: {error.what}", error.hint) for setting, error in wrong.items() if error
    }


def without_effect(config: Config) -> Mapping[str, str]:
    """Setting → a sentence on what of it has no effect; settings that have one, or name nothing, are left out."""
    sentences = {
        "decide.policy": renamed(config.decide.policy) or _unheeded(config),
        "decide.finish": _nothing_to_divide(config),
        "links.node_gbit": _not_reserved(config, config.links.node_gbit),
        "links.uplink_gbit": _not_reserved(config, config.links.uplink_gbit),
    }
    return {setting: sentence for setting, sentence in sentences.items() if sentence}


def _unheeded(config: Config) -> str:
    try:
        policy = find_policy(config.decide.policy_with_options)
        return unheeded(policy, config.decide.policy_with_options, config.decide.objective)
    except InputError:
        return ""


def _nothing_to_divide(config: Config) -> str:
    if config.decide.finish == "as-asked" or config.lend.share != "whole":
        return ""
    return (
        f'decide.finish: {config.decide.finish} has nothing to divide, as lend.share = "whole" lends whole nodes.'
    )


def _not_reserved(config: Config, gbit: float) -> str:
    try:
        policy = find_policy(config.decide.policy_with_options)
    except InputError:
        return ""
    if not gbit or isinstance(policy, CanReserve):
        return ""
    return f"links: the policy {config.decide.policy} reserves no bandwidth; gadget does."


def _check_objective(config: Config) -> None:
    name = config.decide.objective
    worth_per_s(_SMALL, name)
    aim = read_aim(name)
    if aim.deadlines and config.lend.fair_share == "off":
        raise InputError(
            f'The objective {name!r} counts deadlines, and with lend.fair_share = "off" all users compete in one '
            "decision: a user who names a deadline would take the others' nodes.",
            'Set lend.fair_share = "user" or "account", or leave the deadlines out.',
        )
    if aim.energy and not config.prices.draw.is_known:
        raise no_watts(name)


def _why_not(find: Callable[[], object]) -> InputError | None:
    try:
        find()
    except InputError as error:
        return error
    return None
