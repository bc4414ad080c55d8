"""Applications of a lesson: unmodified consumers in Java and Python, each a process of the lab with one cluster's address.

Rules: they follow no pointer; a lesson starts them on a cluster and stops them. What one has read is in its history, a file for
each cluster, which is kept when it is stopped. Opening another lesson stops them and deletes the histories.
`ApplicationsLesson` has two of them, and a second prediction: how many orders one of them reads again.
Not for: applications that follow the pointer (`drlib.lab.apps`), or judging what was read.
"""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.errors import MissingDependency, UsageError
from drlib.lab.checker.history_files import read_history
from drlib.lab.clients.runtimes import Client, command, forget, found
from drlib.model import TopicPartition
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, Lesson
from drlib.training.academy.testbed import HISTORY, WORKER, LessonTestbed, order_number

JAVA: Final = "java"
PYTHON: Final = "librdkafka"
_STOP_S: Final = 20.0  # a killed consumer is a member of its group until its session times out
LANGUAGES: Final = {JAVA: "Java", PYTHON: "Python"}
FAMILY: Final = {"billing": JAVA, "shipping": PYTHON}
AGAIN: Final = "second prediction"


@dataclass(frozen=True, slots=True)
class Application:
    """The consumer `short`, such as billing, written with the clients of `family`. Its group bears the attempt's tag."""

    testbed: LessonTestbed
    short: str
    family: str

    @property
    def group(self) -> str:
        return self.testbed.name(self.short)

    @property
    def runs(self) -> bool:
        return self.testbed.lab.registry.alive(self._process)

    def require(self) -> None:
        """Raises `MissingDependency` where this machine cannot run its family."""
        if missing := next((each.missing for each in found() if each.family == self.family), ""):
            forget()
            raise MissingDependency(f"{self.short} cannot be started", missing, "Install it, then run this cell again.")

    def start(self, alias: str, *topics: str) -> None:
        """Start it on the cluster unless it runs; it subscribes to `topics`. Raises as `require` does."""
        if self.runs:
            return
        self.require()
        lab = self.testbed.lab
        servers, history = lab.clusters[alias].bootstrap, self._history(alias)
        client = Client(self.family, "consume", self.group, alias, servers, topics, history, 0.0, lab.client_file())
        lab.start_program(self._process, command(client))

    def stop(self) -> None:
        """SIGTERM: it commits what it has read, and leaves its group."""
        self.testbed.lab.registry.stop(self._process, deadline_s=_STOP_S)

    def read(self, alias: str) -> list[str]:
        """What it has read on the cluster, in order."""
        return [row.id for row in read_history(self._history(alias)).consumed]

    def forget(self, alias: str) -> None:
        """Delete the history of what it has read on the cluster."""
        self._history(alias).unlink(missing_ok=True)

    @property
    def _process(self) -> str:
        return f"{WORKER}{self.group}"

    def _history(self, alias: str) -> Path:
        return self.testbed.lab.root / f"{self._process}-{alias.lower()}{HISTORY}"


class ApplicationsLesson(Lesson):
    """A lesson with the applications of `FAMILY`, which read its topic of one partition."""

    def predict_again(self, prediction: str | int = "") -> Table:
        """Record how many orders you expect billing to read again. Only the first answer counts."""
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        self.require(BREAK, "lesson.break_it()")
        text = str(prediction).strip() or (self.reference_again() if self.dry_run else "")
        if text and not self.has_done(AGAIN):
            number = decoding.integer_or(-1, text.replace(",", ""))
            if number < 0:
                raise UsageError(
                    f"{text} is not a number of orders",
                    "your second prediction is compared with a number",
                    'Give a whole number in quotes, as in lesson.predict_again("12").',
                )
            self.step(AGAIN, lambda: {"again": number})
        question = self.question_again()
        if not self.has_done(AGAIN):
            return Table("No second prediction is recorded yet", [], note=question)
        note = f"You wrote: {self.numbers['again']}. It is recorded; lesson.truth() shows the answer."
        return Table(question, [], note=note)

    @abstractmethod
    def question_again(self) -> str:
        """The second question, without the answer."""

    @abstractmethod
    def reference_again(self) -> str:
        """What a dry run predicts then."""

    @property
    def _partition(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def _application(self, name: str) -> Application:
        return Application(self.testbed, name, FAMILY[name])

    def _read_on(self, alias: str, name: str) -> list[int]:
        """The orders that an application has read on a cluster, in order."""
        return [order_number(text) for text in self._application(name).read(alias)]

    def _second_missing(self) -> Table:
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        self.require(BREAK, "lesson.break_it()")
        return Table("Your second prediction comes first", [], note="Run the cell with lesson.predict_again(...).")
