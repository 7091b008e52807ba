from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freetrain.core.cluster import Gres
from freetrain.core.share import Share
from freetrain.slurm.tres import MIB, parse_gpus, parse_tres, show_tres

counts = st.none() | st.integers(0, 10**6)
names = st.sampled_from(["gpu", "gpu:a100", "gpu:1g.5gb", "gpu:nvidia_a100_3g.20gb", "shard", "shard:l4", "mps"])
gpus = st.none() | st.dictionaries(names, st.integers(1, 64)).map(lambda found: tuple(sorted(found.items())))
shares = st.builds(Share, counts, counts.map(lambda mib: None if mib is None else mib * MIB), gpus)


@given(shares)
def test_a_share_that_is_shown_and_read_again_is_the_same(share: Share) -> None:
    assert parse_tres(show_tres(share)) == share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("cpu=4,mem=1000M,billing=4,gres/gpu=4", Share(4, 1000 * MIB, (("gpu", 4),))),
        (
            "cpu=2,mem=1.50T,node=2,gres/gpu=3,gres/gpu:a100=2",
            Share(2, 1536 * 1024 * MIB, (("gpu", 1), ("gpu:a100", 2))),
        ),
        (
            "gres/gpu:1g.5gb=3,gres/gpu:3g.20gb=1,gres/gpu=4",
            Share(None, None, (("gpu:1g.5gb", 3), ("gpu:3g.20gb", 1))),
        ),
        ("cpu=2,gres/gpumem=40G,gres/gpuutil=90,gres/tape=2", Share(2)),
        ("cpu=2,gres/shard:l4=2,gres/shard=2", Share(2, None, (("shard:l4", 2),))),
        ("cpu=NONE,mem=much,gres/gpu=N/A", Share()),
        ("", Share()),
    ],
)
def test_lists_of_tres(text: str, share: Share) -> None:
    assert parse_tres(text) == share


def test_what_slurm_counts_and_does_not_list_is_nothing() -> None:
    assert parse_tres("", ("cpu", "mem", "gres/gpu")) == Share(0, 0, ())
    assert parse_tres("cpu=3", ("cpu", "mem", "node")) == Share(3, 0, None)


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:a100:4(S:0-3)", (("gpu:a100", 4),)),
        ("gpu:a100:2(IDX:0,3),gpu:v100:0(IDX:N/A),nvme:2", (("gpu:a100", 2),)),
        ("gpu:(null):2(IDX:0-1)", (("gpu", 2),)),
        ("gpu:4,mps:2K,bandwidth:lustre:no_consume:4G", (("gpu", 4), ("mps", 2048))),
        ("gpu:a100(CNT:2),shard:a100:3(0/4,3/4)", (("gpu:a100", 2), ("shard:a100", 3))),
        ("gpu:1g.5gb:7", (("gpu:1g.5gb", 7),)),
        ("gpu", (("gpu", 1),)),
        ("(null)", ()),
        ("gpu:a100:some:4", None),
    ],
)
def test_lists_of_gres(text: str, gpus: Gres | None) -> None:
    assert parse_gpus(text) == gpus
