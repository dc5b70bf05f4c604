"""The tokenizer that docs/serving.md gives to clients of models that take ids."""

import json
import pathlib
import re
import unicodedata

import pytest

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import load_vocabulary

PAGE = pathlib.Path(__file__).parents[4] / "docs/serving.md"
TEXTS = (
    "Die gr\u00f6\u00dfte Stra\u00dfe, \u0130stanbul IS\u0131 cafe\u0301 \u1e9e \ufb01!",
    "\u0915\u0941\u091b \u0915\u094d\u200d\u0937 \u0939\u093f\u0928\u094d\u0926\u0940\u0964",
    "\u0e01\u0e34\u0e19\u0e19\u0e49\u0e33 " + "\u0e01" * 150 + " " + "\u0e02" * 201,
    "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u0629",
    "\u0640 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u6771\u4eac\u306f\u30ac\u30bd\u30ea\u30f3\u3002\uff76\uff9e\uff11\uff21",
    "\ud55c\uad6d\uc5b4 H\u00e0 N\u1ed9i co\u00adop [MASK] [UNK]",
    "\U0001f468\u200d\U0001f469 \u2764\ufe0f #\ufe0f\u20e3",
    "a\u00a0b\u3000c\u2028d\u0085e\x00f\x0bg\ufeffh\ufffdi\tj\r\nk\u202fl",
)


@pytest.mark.parametrize("modes", [(True, True), (True, False), (False, False)])
def test_its_ids_are_ours(tmp_path, modes):
    lower, strip = modes
    forms = ("".join(TEXTS), "".join(TEXTS).lower())
    characters = "".join(form + unicodedata.normalize("NFD", form) for form in forms)
    known = sorted({c for c in characters if c.strip() and unicodedata.category(c)[0] != "C"})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]
    tokens += [f"##{c}" for c in known]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    description = {"do_lower_case": lower, "strip_accents": strip}
    (tmp_path / "description.json").write_text(json.dumps(description))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [each for each in blocks if "import Tokenizer" in each]
    names = {}
    exec(re.sub(r'"my_data/[^"]*"', repr(str(tmp_path)), block), names)
    ours = Tokenizer(load_vocabulary(tmp_path / "vocab.txt"), lower, strip)
    theirs = [names["tokenizer"].encode(text).ids for text in TEXTS]
    assert ours.tokenize(list(TEXTS)).to_list() == theirs
    assert max(map(len, theirs)) > 150
