"""What a soak makes of parts that its time ended."""

from tests.faults.corruption import CRASH, HARMLESS, Trial
from tests.faults.soak import without_killed


def test_the_trial_that_the_end_of_the_time_killed_is_none():
    """It was counted as one that ended the process: a broken promise."""
    trials = [Trial(i, "records", "a", "bit", CRASH, "") for i in range(3)]
    assert without_killed(trials) == trials[:2]
    whole = [*trials[:2], Trial(2, "records", "a", "bit", HARMLESS, "")]
    assert without_killed(whole) == whole
    assert without_killed([]) == []
