"""Policies by name, where packages of somebody else's are installed, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from freetrain.config.sections import Decide
from freetrain.core.problem import Problem
from freetrain.core.topology import Topology
from freetrain.errors import InputError
from freetrain.policies import FINISHERS, PLACERS, POLICIES, VARIANTS, find_finisher, find_placer, find_policy
from freetrain.policies.registry import ENTRIES, RENAMED, Stage, catalogue, renamed
from tests.installing import install_policy

Install = Callable[[str, str, str], None]
STILL = "class Still:\n    def decide(self, problem):\n        ...\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package for this test: policy, module, code."""

    return partial(install_policy, tmp_path, monkeypatch)


def refusal(name: str) -> InputError:
    with pytest.raises(InputError) as refused:
        find_policy(name)
    return refused.value


def test_a_package_brings_a_policy(install: Install) -> None:
    install("still", "still_policy", STILL)
    assert type(find_policy("still")).__name__ == "Still"


def test_an_unknown_policy_is_refused_with_those_that_there_are(install: Install) -> None:
    install("quiet", "quiet_policy", STILL)
    refused = refusal("fair")
    assert refused.what == "There is no policy 'fair'."
    assert refused.hint == (f"Choose one of {', '.join(POLICIES)}, quiet, or install the package that has it.")


def test_a_policy_can_be_found_as_soon_as_it_is_installed(install: Install) -> None:
    assert "no policy 'late'" in refusal("late").what
    install("late", "late_policy", STILL)
    assert find_policy("late")


def test_nobody_takes_the_name_of_one_of_freetrains_own(install: Install) -> None:
    install("greedy", "greedier_policy", STILL)
    assert type(find_policy("greedy")).__module__ == "freetrain.policies.greedy"
    assert refusal("fair").hint.count("greedy") == 1


def test_two_packages_with_the_same_policy_are_both_named(install: Install) -> None:
    install("same", "one_policy", STILL)
    install("same", "other_policy", STILL)
    assert refusal("same").what == ("Several packages have a policy 'same': one_policy:Still, other_policy:Still.")


@pytest.mark.parametrize(
    ("number", "code", "failed"),
    [
        (1, "import moonbeams", "ModuleNotFoundError: No module named 'moonbeams'"),
        (2, "class Stil:\n    pass\n", "AttributeError: .* has no attribute 'Still'"),
        (3, "class Still(\n", "SyntaxError: .* never closed"),
        (4, "class Still:\n    def __init__(self, limit):\n        ...\n", "TypeError: .* 'limit'"),
        (5, "import sys\nsys.exit('no licence')\n", "SystemExit: no licence"),
    ],
)
def test_a_policy_that_cannot_be_loaded_is_refused_with_what_failed(
    install: Install, number: int, code: str, failed: str
) -> None:
    install(f"broken-{number}", f"broken_policy_{number}", code)
    refused = refusal(f"broken-{number}")
    start = rf"The policy 'broken-{number}' \(broken_policy_{number}:Still\) cannot be loaded: "
    assert re.match(start + failed, refused.what)
    assert refused.hint == f"Install its package again with what it needs, or choose one of {', '.join(POLICIES)}."


def test_a_package_brings_a_placer_which_is_told_the_switches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "class Still:\n    def __init__(self, topology):\n        self.topology = topology\n"
    code += "    def place(self, problem, counts):\n        ...\n"
    install_policy(tmp_path, monkeypatch, "near", "near_placer", code, "freetrain.placers")
    switches = Topology({"n1": "leaf"})
    assert vars(find_placer("near", switches)) == {"topology": switches}


def test_a_package_brings_a_finisher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "class Still:\n    def finish(self, node):\n        return {}\n"
    install_policy(tmp_path, monkeypatch, "plain", "plain_finisher", code, "freetrain.finishers")
    assert type(find_finisher("plain")).__name__ == "Still"
    assert "plain" in {entry.name for entry in catalogue() if entry.stage is Stage.FINISHER}


def test_an_unknown_finisher_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="There is no finisher 'synergy'") as refused:
        find_finisher("synergy")
    assert refused.value.hint.startswith(f"Choose one of {', '.join(FINISHERS)}, or install")


def test_an_unknown_placer_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="There is no placer 'nearby'") as refused:
        find_placer("nearby")
    assert refused.value.hint.startswith(f"Choose one of {', '.join(PLACERS)}, or install")


def test_what_cannot_decide_is_no_policy(install: Install) -> None:
    install("odd", "odd_policy", "def Still():\n    return 3\n")
    assert refusal("odd").what == "The policy 'odd' (odd_policy:Still) has no method 'decide': its type is int."


@pytest.mark.parametrize(
    ("name", "needs"), [("luck", "needs_past = ('node_s', 'luck')"), ("needs_progress", "needs_progress = True")]
)
def test_a_policy_that_needs_what_nobody_knows_is_refused(install: Install, name: str, needs: str) -> None:
    install(name, f"{name}_policy", f"class Still:\n    {needs}\n    def decide(self, problem): ...\n")
    refused = refusal(name)
    assert refused.what.endswith(f"needs what nobody knows of a trainer: {name}.")
    assert "node_s, waiting_since_s" in refused.hint


@pytest.mark.parametrize("variant", [*VARIANTS, *RENAMED, "gadget,utility=log,patience=2h", "smd,patience=0"])
def test_a_policy_is_chosen_with_its_options_and_by_the_names_that_it_had(variant: str) -> None:
    assert callable(find_policy(variant).decide)


def test_a_decision_says_which_options_it_was_made_with() -> None:
    problem = Problem(0.0, (), ())
    assert find_policy("gadget-log").decide(problem).solver == "gadget,utility=log"
    assert find_policy("smd,sizes=menu,patience=2h").decide(problem).solver == "smd,sizes=menu,patience=2h"


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        (
            "gadget,utility=cube",
            "utility is linear or log or fair, not 'cube'",
            "It takes utility=linear|log|fair, pa",
        ),
        (
            "gadget,colour=red",
            "'colour=red' is not an option of it",
            "It takes utility=linear|log|fair, patience=",
        ),
        ("smd,sizes=menu,sizes=menu", "or stands there twice", "It takes sizes=fastest|menu, patience=DURATION."),
        ("smd,patience=soon", "'soon' is not a duration", "It takes sizes=fastest|menu, patience=DURATION."),
        ("greedy,speed=high", "is not an option of it", "greedy takes no options."),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_those_that_there_are(name: str, why: str, hint: str) -> None:
    refused = refusal(name)
    assert refused.what.startswith(f"The policy {name!r} cannot be: ")
    assert why in refused.what
    assert refused.hint.startswith(hint)


def test_a_name_that_a_policy_had_is_said_with_the_lines_that_stand_for_it() -> None:
    assert renamed("gadget-log") == (
        'The policy gadget-log is now an option of gadget: write policy = "gadget" under [decide] and '
        'utility = "log" under [decide.gadget], or --policy gadget,utility=log.'
    )
    assert [renamed(name) for name in VARIANTS] == [""] * len(VARIANTS)


def test_settings_have_the_options_of_policies_with_the_same_defaults() -> None:
    for entry in (entry for entry in ENTRIES if entry.options):
        options = getattr(Decide(), entry.name).model_dump()
        assert list(options) == [option.name for option in entry.options]
        spelled = ",".join(f"{word}={value}" for word, value in options.items())
        made = (vars(find_policy(name)) for name in (entry.name, f"{entry.name},{spelled}"))
        first, second = ({key: value for key, value in document.items() if key != "_name"} for document in made)
        assert first == second


def test_settings_name_a_policy_with_its_options() -> None:
    decide = Decide.model_validate({"policy": "gadget", "gadget": {"utility": "log", "patience": "2h"}})
    assert decide.policy_with_options == "gadget,utility=log,patience=02:00:00"
    assert Decide.model_validate({"smd": {"sizes": "menu"}}).policy_with_options == "freetrain"
