"""The faults of `tests.faults.builder`, each of which says what it has left."""

import json
import pathlib
import random
import shutil
import time
from collections.abc import Callable, Mapping

from tests.faults import built, mounts
from tests.faults.build_texts import every_code_point, write_corpus
from tests.faults.built import BUILD, NEW, NONE, OLD, VOCABULARY, Running, run
from tests.processes import ROOT

VOCAB_FILE = ROOT / "demo/vocab.txt"
_SIZES = {OLD: 300, NEW: 400}
_SEEDS = {OLD: 1, NEW: 2}


class Trials:
    """Faults, in folders of their own; older data is that of another seed."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self._folder = folder
        self.seed = seed
        self._generator = random.Random(f"{seed} builder")
        self._count = 0
        self._corpus = folder / "corpus"
        write_corpus(self._corpus)
        self._data: dict[tuple[str, int], dict[str, bytes]] = {}
        self._seconds: dict[int, float] = {}

    def _built(self, version: str, processes: int) -> dict[str, bytes]:
        """Returns what an undisturbed build leaves."""
        key = version, processes
        if key not in self._data:
            place = self._new()
            end = run(BUILD, self._build(place / "records", version, processes), place)
            if end.status:
                raise RuntimeError(end.errors)
            self._data[key] = built.contents(place / "records")
            self._seconds[processes] = end.seconds
        return self._data[key]

    def killed(self) -> tuple[str, list[str]]:
        """Kills a build, with or without older data, and builds again."""
        processes, old = self._generator.choice((1, 2)), self._generator.choice((OLD, NONE))
        place, before = self._with_older(old)
        new = self._built(NEW, processes)
        flags = self._build(place / "records", NEW, processes)
        program = Running(BUILD, flags, place)
        self._sleep(program, self._generator.uniform(0.2, 1.0) * self._seconds[processes])
        program.kill()
        program.end()
        problems = [f"process {each} goes on" for each in program.leftover()]
        outcome, half = built.judge(place / "records", before, new)
        again = run(BUILD, flags, place)
        problems += half
        if again.status or built.judge(place / "records", before, new)[0] != NEW:
            problems.append(f"again: status {again.status}: {again.errors[-300:]}")
        return self._end(place, outcome, problems + built.hidden(place / "records"))

    def process_killed(self) -> tuple[str, list[str]]:
        """Kills one of two processes of a build."""
        place, before = self._with_older(OLD)
        new = self._built(NEW, 2)
        program = Running(BUILD, self._build(place / "records", NEW, 2), place)
        deadline = time.monotonic() + built.TIMEOUT
        while len(program.workers()) < 2 and program.is_running():
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self._sleep(program, self._generator.uniform(0.0, 0.6) * self._seconds[2])
        workers = program.workers()
        killed = time.monotonic()
        if workers:
            program.kill(self._generator.choice(workers))
        end = program.end()
        seconds = time.monotonic() - killed
        problems = [f"process {each} goes on" for each in program.leftover()]
        outcome, half = built.judge(place / "records", before, new)
        if outcome != NEW:
            problems += built.not_one_message(end, "killed by SIGKILL", "--num-processes")
            problems += [f"after {seconds:.0f} s"] if seconds > built.SECONDS_TO_END else []
        return self._end(place, outcome, problems + half + built.hidden(place / "records"))

    def vocabulary_killed(self) -> tuple[str, list[str]]:
        """Kills the training of a vocabulary, and trains again."""
        place = self._new()
        flags = {version: self._vocabulary(place, version) for version in (OLD, NEW)}
        first = run(VOCABULARY, flags[OLD], place)
        before = built.contents(place / "vocabulary")
        program = Running(VOCABULARY, flags[NEW], place)
        self._sleep(program, self._generator.uniform(0.3, 1.0) * first.seconds)
        program.kill()
        program.end()
        outcome = OLD if built.contents(place / "vocabulary") == before else NEW
        again = run(VOCABULARY, flags[NEW], place)
        problems = [again.errors[-300:]] if again.status else self._not_of_size(place, NEW)
        return self._end(place, outcome, problems)

    def disk_full(self) -> tuple[str, list[str]]:
        """Builds where there is room for a part of the new records only."""
        place, before = self._with_older(OLD, mounted=True)
        new = self._built(NEW, 2)
        num_bytes = sum(map(len, before.values()))
        try:
            end = run(BUILD, self._build(place / "records", NEW, 2), place)
            outcome, problems = built.judge(place / "records", before, new)
            problems += built.not_one_message(end, "No space left on device")
            problems += [] if outcome == OLD else [f"{num_bytes:,} bytes: {outcome}"]
            problems += built.hidden(place / "records")
        finally:
            mounts.unmount(place / "records")
        return self._end(place, outcome, problems)

    def vocabulary_disk_full(self) -> tuple[str, list[str]]:
        """Trains a vocabulary where there is no room."""
        place = self._new()
        (place / "vocabulary").mkdir()
        mounts.mount_small(place / "vocabulary", 4096)
        try:
            end = run(VOCABULARY, self._vocabulary(place, NEW), place)
            problems = built.not_one_message(end, "No space left on device", "--output-file")
            problems += [f"{name} is there" for name in built.contents(place / "vocabulary")]
        finally:
            mounts.unmount(place / "vocabulary")
        return self._end(place, NONE, problems)

    def read_only(self) -> tuple[str, list[str]]:
        """Builds into a folder of a read-only file system."""
        place, before = self._with_older(OLD)
        mounts.mount_read_only(place / "records")
        try:
            end = run(BUILD, self._build(place / "records", NEW, 1), place)
        finally:
            mounts.unmount(place / "records")
        outcome, problems = built.judge(place / "records", before, {})
        problems += built.not_one_message(end, "Read-only file system", "--output-dir")
        return self._end(place, outcome, problems)

    def not_permitted(self) -> tuple[str, list[str]]:
        """Takes a permission: of the output, the folder above, the text, the vocabulary."""
        place, before = self._with_older(OLD)
        flags = self._build(place / "records", NEW, 1)
        kind = self._generator.choice(("output", "parent", "text", "vocabulary"))
        parts = ("Permission denied",)
        if kind == "text":
            corpus = shutil.copytree(self._corpus, place / "corpus")
            (corpus / "1.txt").chmod(0)
            flags += [f"--corpus-dir={corpus}", f"--output-dir={place}/other"]
            parts += ("1.txt", "--corpus-dir")
        elif kind == "vocabulary":
            vocabulary = pathlib.Path(shutil.copy(VOCAB_FILE, place / "vocab.txt"))
            vocabulary.chmod(0)
            flags += [f"--vocab-file={vocabulary}", f"--output-dir={place}/other"]
            parts += ("vocab.txt",)
        elif kind == "parent":
            flags += [f"--output-dir={place}/above/other"]
            (place / "above").mkdir(mode=0o555)
        else:
            (place / "records").chmod(0o555)
            place.chmod(0o555)
        end = run(BUILD, flags, self._folder, unprivileged=True)
        place.chmod(0o755)
        (place / "records").chmod(0o755)
        outcome, problems = built.judge(place / "records", before, {})
        problems += built.not_one_message(end, *parts)
        return self._end(place, outcome, [f"{kind}: {problem}" for problem in problems])

    def links_in_circles(self) -> tuple[str, list[str]]:
        """Links folders of a corpus in circles, and a file to itself."""
        place = self._new()
        corpus = pathlib.Path(shutil.copytree(self._corpus, place / "corpus"))
        (corpus / "below").mkdir()
        (corpus / "below/up").symlink_to(corpus)
        (corpus / "here").symlink_to(corpus)
        (corpus / "below/one").symlink_to(corpus / "below/two")
        (corpus / "below/two").symlink_to(corpus / "below/one")
        flags = [*self._build(place / "records", NEW, 1), f"--corpus-dir={corpus}"]
        end = run(BUILD, flags, place)
        problems = built.not_one_message(end, "is a broken link", "--corpus-dir")
        problems += ["something is left"] if (place / "records").exists() else []
        (corpus / "own.txt").symlink_to(corpus / "own.txt")
        end = run(BUILD, [*flags, "--skip_unreadable"], place)
        expected, found = self._built(NEW, 1), built.contents(place / "records")
        shards = [name for name in expected if not name.endswith(".json")]
        if end.status or any(found.get(name) != expected[name] for name in shards):
            problems.append(f"skipped: status {end.status}: {end.errors[-300:]}")
        return self._end(place, NEW, problems)

    def two_at_once(self) -> tuple[str, list[str]]:
        """Starts two builds into a folder."""
        place, before = self._with_older(OLD)
        new = self._built(NEW, 1)
        programs = [Running(BUILD, self._build(place / "records", NEW, 1), place)]
        time.sleep(self._generator.uniform(0, 0.6) * self._seconds[1])
        programs.append(Running(BUILD, self._build(place / "records", NEW, 1), place))
        ends = [program.end() for program in programs]
        problems = []
        for end in ends:
            if end.status:
                problems += built.not_one_message(end, "Another program is building records")
        outcome, half = built.judge(place / "records", before, new)
        if outcome != NEW or all(end.status for end in ends):
            problems.append(f"{outcome}, statuses {[end.status for end in ends]}")
        return self._end(place, outcome, problems + half + built.hidden(place / "records"))

    def two_vocabularies(self) -> tuple[str, list[str]]:
        """Trains two vocabularies into a file at once."""
        place = self._new()
        programs = [
            Running(VOCABULARY, self._vocabulary(place, version), place)
            for version in (OLD, NEW)
        ]
        ends = [program.end() for program in programs]
        problems = [end.errors[-300:] for end in ends if end.status]
        for size in _SIZES:
            if not self._not_of_size(place, size):
                return self._end(place, size, problems)
        return self._end(place, "a mixture", [*problems, "a mixture"])

    def every_code_point(self) -> tuple[str, list[str]]:
        """Builds records and a vocabulary of a text of every code point."""
        place = self._new()
        (place / "corpus").mkdir()
        every_code_point(place / "corpus/text.txt")
        flags = [*self._build(place / "records", NEW, 1), f"--corpus-dir={place}/corpus"]
        end = run(BUILD, flags, place)
        problems = [end.errors[-300:]] if end.status else []
        if not problems:
            manifest = json.loads((place / "records/pretrain_data.json").read_text())
            read, written = manifest["num_tokens_read"], manifest["num_tokens_written"]
            problems += [] if read == written else [f"{read} tokens read, {written} written"]
            problems += ["a code point is invalid"] if manifest["invalid_utf8"] else []
        flags = [*self._vocabulary(place, NEW), f"--corpus-dir={place}/corpus"]
        end = run(VOCABULARY, flags, place)
        problems += [end.errors[-300:]] if end.status else self._not_of_size(place, NEW)
        return self._end(place, NEW, problems)

    def _build(self, output: pathlib.Path, version: str, processes: int) -> list[str]:
        flags = [f"--corpus-dir={self._corpus}", f"--vocab-file={VOCAB_FILE}"]
        flags += [f"--output-dir={output}", f"--num-processes={processes}", "--overwrite"]
        return [*flags, f"--seed={_SEEDS[version]}", "--max-seq-length=64"]

    def _vocabulary(self, place: pathlib.Path, version: str) -> list[str]:
        flags = [f"--corpus-dir={self._corpus}", "--overwrite"]
        return [*flags, *vocabulary_flags(place / "vocabulary", _SIZES[version])]

    def _not_of_size(self, place: pathlib.Path, version: str) -> list[str]:
        """Says what is wrong with a vocabulary and its description, if anything."""
        from electra_tf.text.tokenizer_description import load_tokenizer_description
        from electra_tf.text.vocabulary import load_vocabulary

        path = place / "vocabulary/vocab.txt"
        try:
            size = load_vocabulary(path).size
            description = load_tokenizer_description(path)
        except ValueError as error:
            return [str(error)]
        problems = [] if size == _SIZES[version] else [f"{size} entries"]
        return problems + ([] if description else ["no description"])

    def _with_older(
        self, version: str, *, mounted: bool = False
    ) -> tuple[pathlib.Path, dict[str, bytes]]:
        """Returns a folder with older records, if any, and their content."""
        place = self._new()
        before = self._built(OLD, 1) if version == OLD else {}
        if before:
            (place / "records").mkdir()
            room = 0
            if mounted:
                # In pages, with their names: the old ones, and a part of the new ones.
                pages = [-(-len(each) // 4096) + 1 for each in before.values()]
                room = int(4096 * sum(pages) * self._generator.uniform(1.1, 1.8))
                mounts.mount_small(place / "records", room)
            for name, content in before.items():
                (place / "records" / name).write_bytes(content)
        return place, before

    def _sleep(self, program: Running, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and program.is_running():
            time.sleep(0.005)

    def _new(self) -> pathlib.Path:
        self._count += 1
        place = self._folder / f"{self._count}"
        place.mkdir()
        return place

    def _end(
        self, place: pathlib.Path, outcome: str, problems: list[str]
    ) -> tuple[str, list[str]]:
        shutil.rmtree(place, ignore_errors=True)
        return outcome, problems


def vocabulary_flags(place: pathlib.Path, size: int) -> list[str]:
    """Returns the flags of a vocabulary in a folder."""
    return [f"--output-file={place}/vocab.txt", f"--vocab-size={size}"]


_Fault = Callable[[Trials], tuple[str, list[str]]]
FAULTS: Mapping[str, _Fault] = {
    "a build is killed": Trials.killed,
    "a process of a build is killed": Trials.process_killed,
    "the training of a vocabulary is killed": Trials.vocabulary_killed,
    "the disk is full": Trials.disk_full,
    "the disk is full, vocabulary": Trials.vocabulary_disk_full,
    "the file system is read-only": Trials.read_only,
    "no permission": Trials.not_permitted,
    "links in circles": Trials.links_in_circles,
    "two builds at once": Trials.two_at_once,
    "two vocabularies at once": Trials.two_vocabularies,
    "every code point": Trials.every_code_point,
}
MOUNTING = ("the disk is full", "the disk is full, vocabulary", "the file system is read-only")
