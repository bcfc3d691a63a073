"""Predictions against measured pairs, and plans against public reports whose fix is known.

python -m bench.remedies
"""

from tests.remedies.test_cases import FIXED, holds, plan_for
from tests.remedies.test_pairs import PAIRS, predictions, truth, within


def pairs() -> list[str]:
    """A line for each measure of each pair: predicted and measured, as shares of what it was."""
    lines = []
    for before, after in PAIRS:
        old, new, right = truth(before), truth(after), within(before, after)
        for each in predictions(before, after):
            if old[each.measure] > 0 and each.now > 0:
                told = f"x {each.low / each.now:.2f}-{each.high / each.now:.2f}"
                seen = f"x {new[each.measure] / old[each.measure]:.2f}"
            else:
                told, seen = f"{each.low:.2f}-{each.high:.2f}", f"{new[each.measure]:.2f}"
            mark = "within" if right[each.measure] else "OUTSIDE"
            lines.append(f"{after:24} {each.measure:24} predicted {told:14} measured {seen:8} {mark}")
    return lines


def cases() -> list[str]:
    """The reports whose plan misses the fix, and the share that holds it."""
    missed = [case["id"] for case in FIXED if not holds(plan_for(case), case["accept"])]
    share = 1 - len(missed) / len(FIXED)
    return [
        f"{len(FIXED) - len(missed)} of {len(FIXED)} plans hold the fix ({share:.0%})",
        *map("  missed {}".format, missed),
    ]


if __name__ == "__main__":
    print("\n".join([*pairs(), "", *cases()]))
