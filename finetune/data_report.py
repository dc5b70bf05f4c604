"""What happened to the data on its way into features: truncated, dropped, repaired."""

import collections
import dataclasses
import json

from electra_tf.util.files import write_atomically


@dataclasses.dataclass
class DataReport:
    """Counts problems of one task and split by kind, and remembers where they were.

    Nothing is dropped silently: what a loader or featurizer leaves out or cuts is added
    here, printed as counts and listed in a JSON file.
    """

    task_name: str
    split: str
    problems: dict[str, list[dict]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )

    def add(self, problem: str, **where: object) -> None:
        """Adds one case, such as `add("answer not in the context", id=qas_id)`."""
        self.problems[problem].append(where)

    def lines(self) -> list[str]:
        """Returns one line for each kind of problem."""
        return [
            f"{self.task_name} {self.split}: {len(cases):,} x {problem}"
            for problem, cases in self.problems.items()
        ]

    def write(self, path: str) -> None:
        """Writes all cases as JSON: {problem: [{where}, ...]}."""
        write_atomically(path, json.dumps(self.problems, indent=1, ensure_ascii=False) + "\n")
