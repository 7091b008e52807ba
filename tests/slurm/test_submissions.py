from __future__ import annotations

from freetrain.core.fragment import End, Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState
from freetrain.core.known_trainer import KnownTrainer, TrainerState
from freetrain.daemon.trainers.training import Patience, after_ends
from freetrain.slurm.comments import ask_to_resume, asked_to_resume, says_paused, with_answer, without_answer
from freetrain.slurm.submissions import Submission, find_submissions

TAG = "freetrain:min=1"


def task(number: int, state: JobState = JobState.PENDING, comment: str = TAG) -> Job:
    return Job(f"7_{number}", "7", "news", "freetrain", state, comment=comment)


def submission(*tasks: Job) -> Submission:
    return find_submissions(tasks, FragmentQueue("freetrain"))["7"]


def test_what_has_ended_is_not_named_to_slurm() -> None:
    ended = task(3, JobState.FAILED)
    assert submission(*(task(number) for number in (0, 1, 2)), ended, task(5)).open_tasks == "7_[0-2,5]"
    assert submission(ended).open_tasks == ""
    pattern = Job("7", "7", "news", "freetrain", JobState.PENDING, comment=TAG)
    assert submission(pattern).open_tasks == "7"


def test_a_request_or_an_answer_on_any_open_task_counts_and_that_of_an_ended_one_does_not() -> None:
    paused, asked = with_answer(TAG, "paused after 5 failures"), ask_to_resume(TAG, 5.0)
    assert submission(task(0), task(1, comment=paused)).comment == paused
    assert submission(task(0, comment=paused), task(1, comment=asked), task(2)).comment == asked
    assert submission(task(0, JobState.FAILED, asked), task(1)).comment == TAG


def test_no_two_requests_are_equal_and_nothing_else_is_one() -> None:
    first = ask_to_resume(TAG, 1000.9)
    assert asked_to_resume(first) == 1000
    assert asked_to_resume(ask_to_resume(first, 900.0)) == 1001
    assert without_answer(first) == TAG
    for comment in (TAG, f"{TAG} | resume", f"{TAG} | resume me 7", f"{TAG} | resume 9 | x", "resume 5"):
        assert asked_to_resume(comment) == 0


def test_the_note_of_a_paused_trainer_is_known_again_in_the_comment() -> None:
    trainer = KnownTrainer("7", "news", TAG, TrainerState.ACTIVE, 0.0)
    failed = Fragment("7_0", "7", "n1", FragmentState.ENDED, 0.0, 60.0, 1.0, 2.0, End.FAILED)
    paused = after_ends(trainer, [failed], Patience(60.0, 1), 3.0, failed_on=["n2"])
    assert paused.state is TrainerState.PAUSED
    assert says_paused(with_answer(TAG, paused.note))
