from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from freetrain.config import Config, ConfigError, find_mistakes, load_config


def test_without_any_file_the_defaults_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("freetrain.config.settings"), "DEFAULT_PATH", tmp_path / "none.toml")
    monkeypatch.delenv("FREETRAIN_CONFIG", raising=False)
    assert load_config().config == Config()
    assert load_config().config.lend.mode == "observe"


def test_an_empty_file_is_refused_and_one_of_comments_has_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="is empty, as an interrupted write leaves a file"):
        load_config(path)
    path.write_text("# the defaults\n")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "site.toml").touch()
    assert load_config(path).config == Config()


def test_drop_ins_override_in_the_order_of_their_names(tmp_path: Path) -> None:
    main = tmp_path / "freetrain.toml"
    main.write_text('[pace]\npoll = "10s"\nback_off = "2m"\n')
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "20-site.toml").write_text("[pace]\npoll = 7\n")
    (tmp_path / "conf.d" / "10-site.toml").write_text('[pace]\npoll = 6\n[lend]\nmode = "act"\n')
    loaded = load_config(main)
    assert (loaded.config.pace.poll, loaded.config.pace.back_off, loaded.config.lend.mode) == (7, 120, "act")
    assert [source.name for source in loaded.sources] == ["freetrain.toml", "10-site.toml", "20-site.toml"]
    origins = {setting: source.name for setting, source in loaded.origins.items()}
    assert origins == {
        "pace.poll": "20-site.toml", "pace.back_off": "freetrain.toml", "lend.mode": "10-site.toml"
    }  # fmt: skip


def test_a_group_of_nodes_stands_for_those_that_it_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "groups.conf").write_text("[Main]\ndefault: site\n[site]\nmap: echo n[01-03]\n")
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path))
    path = tmp_path / "freetrain.toml"
    path.write_text('[lend]\nexclude_nodes = "@login,c7"\n')
    assert load_config(path).config.lend.exclude_nodes == "c7,n[01-03]"


@pytest.mark.parametrize(
    ("text", "complaint", "hint"),
    [
        ("[pace]\npol = 5\n", "there is no setting pace.pol", "Did you mean poll?"),
        ("[pase]\npoll = 5\n", "there is no setting pase", "Did you mean pace?"),
        ('[pace]\nmode = "act"\n', "there is no setting pace.mode", "It belongs into [lend]."),
        ("[pace]\nxyz = 5\n", "there is no setting pace.xyz", "There are poll, cool_down, back_off"),
        ('[pace]\npoll = "soon"\n', "pace.poll: 'soon' is not a duration", ""),
        ("[pace]\npoll = 0\n", "pace.poll: Input should be greater than or equal to 1", ""),
        ('[lend]\nmode = "on"\n', "lend.mode: Input should be 'observe', 'advise' or 'act'", ""),
        ('[lend]\nreserve_nodes = "3"\n', "lend.reserve_nodes: Input should be a valid integer", ""),
        ('[lend]\nexclude_nodes = "c[01-"\n', "lend.exclude_nodes: no list of nodes: 'c[01-'", ""),
        ('[lend]\nexclude_nodes = "@nope"\n', "lend.exclude_nodes: there is no group of nodes @nope", ""),
        ("[lend\n", "is not TOML", ""),
        ("slurm = 3\n", "slurm: Input should be a valid dictionary", ""),
    ],
)
def test_a_wrong_file_is_answered_with_a_sentence(tmp_path: Path, text: str, complaint: str, hint: str) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"freetrain\.toml") as caught:
        load_config(path)
    assert complaint in caught.value.what
    assert hint in caught.value.hint
    assert caught.value.exit_code == 78


def test_every_mistake_of_a_file_can_be_had_at_once(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text('[pace]\npoll = 0\nback_off = "soon"\n[lend]\nmoed = "act"\n')
    found = find_mistakes(path)
    assert [mistake.mend for mistake in found] == [
        '[lend]\nmode = "act"', '[pace]\npoll = "00:00:10"', '[pace]\nback_off = "00:01:00"'
    ]  # fmt: skip
    path.write_text("[pace]\npoll = 5\n")
    assert find_mistakes(path) == []


def test_what_only_all_files_together_say_is_found(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text('[lend]\nfair_share = "off"\n')
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10.toml").write_text("[lend]\nmost_nodes_per_user = 4\n")
    (found,) = find_mistakes(path)
    assert "limits per user and account need fair_share" in found.what


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.toml")


def test_limits_of_people_need_fair_shares(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text('[lend]\nfair_share = "off"\nmost_nodes_per_user = 4\n')
    with pytest.raises(ConfigError, match="limits per user and account need fair_share"):
        load_config(path)


def test_shares_of_users_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text("[lend.shares]\nalice = 2\n")
    assert load_config(path).config.lend.shares == {"alice": 2.0}
    path.write_text("[lend.shares]\nalice = 1e9\n")
    with pytest.raises(ConfigError, match="alice"):
        load_config(path)


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ('[lend]\nfair_share = "off"\nmost_nodes_per_user = 2\n', '[lend]\nfair_share = "user"'),
        ('[slurm]\npartition = "a,b"\n', '[slurm]\nqos = "freetrain"'),
    ],
)
def test_settings_that_exclude_each_other_are_mended_by_more_than_the_name_of_their_table(
    tmp_path: Path, text: str, mend: str
) -> None:
    path = tmp_path / "freetrain.toml"
    path.write_text(text)
    assert [mistake.mend for mistake in find_mistakes(path)] == [mend]
    table, line = mend.split("\n")
    path.write_text(text.replace('fair_share = "off"\n', "").replace(table, f"{table}\n{line}"))
    assert find_mistakes(path) == []
