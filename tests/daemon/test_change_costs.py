"""What changes of a training's size are taken to cost it."""

from __future__ import annotations

from freetrain.core.observed import RunningMean, SeenCosts, SizeChange
from freetrain.core.throughput import Observation
from freetrain.daemon.trainers.kinds import believed_costs
from freetrain.daemon.trainers.progress_reader import Report
from freetrain.slurm.tags import Tag
from tests.daemon.conftest import StartDaemon
from tests.daemon.fake_slurm import FakeSlurm


def test_nothing_seen_leaves_what_the_tag_says() -> None:
    costs = believed_costs(SeenCosts(), Tag(scale_up_s=1.0, scale_down_s=2.0, start_s=3.0, boot_s=4.0))
    forced = {"forced_loss_s": None}  # as much as shrinking
    assert costs == {"scale_up_s": 1.0, "scale_down_s": 2.0, "start_s": 3.0, "boot_s": 4.0, **forced}


def test_who_saves_now_and_then_loses_half_of_the_time_between_unless_a_warning_lets_it_save() -> None:
    assert believed_costs(SeenCosts(), Tag(scale_down_s=2.0, save_s=300.0))["forced_loss_s"] == 152.0
    assert believed_costs(SeenCosts(), Tag(scale_down_s=2.0, save_s=300.0, notice=True))["forced_loss_s"] is None


def test_losses_that_were_seen_count_instead() -> None:
    costs = believed_costs(SeenCosts(forced_loss=RunningMean(8.0, 3)), Tag(scale_down_s=2.0))
    assert costs["forced_loss_s"] == (2.0 + 3 * 8.0) / 4


def test_the_daemon_decides_with_what_it_has_seen_and_remembers_it(
    slurm: FakeSlurm, start_daemon: StartDaemon
) -> None:
    array = slurm.submit_array("freetrain:min=1,max=2,grow=1")
    daemon = start_daemon()
    daemon.cycle()
    daemon.cycle()
    started_s = max(fragment.started_s or 0.0 for fragment in daemon.cluster.books.open)
    joined = SizeChange(started_s + 12.0, 2, "join", 3.0)
    report = Report(False, 10.0, (Observation(2, 100.0),), 5, changes=(joined,))
    daemon.cycle({array: report})
    (request,) = daemon.judgement.facts.requests
    assert (request.trainer.scale_up_s, request.trainer.boot_s) == (2.0, 4.5)
    assert daemon.ledger.trainers()[array].costs.boot == RunningMean(9.0, 1)
