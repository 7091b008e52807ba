"""Tells worlds that break because a member is missing from those that would break again and again."""

from __future__ import annotations

from freetrain.elastic.errors import BrokenWorldError

_MOST_OF_A_NEWCOMER = 3
_MOST_OF_A_VETERAN = 6
"""Worlds in a row. A newcomer gives up first: if the fault is its own, the others go on without it."""

_HINT = (
    "If it is about an address or a connection, see whether the nodes reach each other (FREETRAIN_ADDRESS, "
    "GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME); otherwise, whether the backend can sum and broadcast all of the "
    "model's tensors."
)


class Breaks:
    """Counts the worlds in a row that broke although nobody was missing, and in which no step was completed.

    A lost rank explains a broken world once. What breaks one world after the other with all members alive is a
    defect of the network, the script or this software, and forming more worlds would hide it for ever.
    """

    def __init__(self) -> None:
        self._in_a_row = 0
        self._last_step: int | None = None
        self._veteran = False

    def count(self, error: BaseException | None, cause: str, step: int) -> None:
        """Take note of a generation that follows.

        Args:
            error: what the world before it broke with in this process; None if it did not, or was cut.
            cause: of the generation that follows.
            step: the last completed step.

        Raises:
            BrokenWorldError: too many in a row.
        """
        if self._last_step is not None and step > self._last_step:
            self._veteran = True
            self._in_a_row = 0
        self._last_step = step
        if cause != "broken":
            self._in_a_row = 0
        elif error is not None:
            self._in_a_row += 1
        most = _MOST_OF_A_VETERAN if self._veteran else _MOST_OF_A_NEWCOMER
        if error is not None and self._in_a_row >= most:
            raise BrokenWorldError(
                f"{self._in_a_row} worlds in a row broke although no member was missing, the last one with: "
                f"{error}\n{_HINT}"
            ) from error
