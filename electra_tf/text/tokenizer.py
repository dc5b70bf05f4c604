"""BERT's tokenizer as a TensorFlow graph: strings in, WordPiece ids out.

The same module tokenizes the corpus and is embedded in exported models. It returns the same
ids as the authors' Python tokenizer, whose character classes are those of Unicode 14:

1. Drop U+0000, U+FFFD and every character of a category C* except tab, LF and CR.
2. If lowercasing: lowercase; then, if stripping accents, decompose (NFD) and drop
   nonspacing marks (Mn).
3. Split at whitespace, and around every punctuation character and CJK ideograph.
4. Split each word greedily into the longest matching pieces, left to right. A word of more
   than 200 code points, or with an unmatched remainder, becomes one [UNK].

Known difference: lowercasing of a word-final Σ depends on its neighbors, and 40 capitals
added in Unicode 14 (see `_LATE_CAPITALS`) do not count as letters there.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf.text.vocabulary import CONTINUATION, UNK, Vocabulary
from electra_tf.util.errors import UserError

MAX_CODE_POINTS_PER_WORD = 200

# RE2 follows Unicode 15.0; in the authors' Unicode 14 its additions are unassigned (Cn).
_ADDED_IN_UNICODE_15 = (
    "0CF3 0ECE 10EFD-10EFF 1123F-11241 11B00-11B09 11F00-11F10 11F12-11F3A 11F3E-11F59 1342F "
    "13440-13455 1B132 1B155 1D2C0-1D2D3 1DF25-1DF2A 1E030-1E06D 1E08F 1E4D0-1E4F9 1F6DC "
    "1F774-1F776 1F77B-1F77F 1F7D9 1FA75-1FA77 1FA87-1FA88 1FAAD-1FAAF 1FABB-1FABD 1FABF "
    "1FACE-1FACF 1FADA-1FADB 1FAE8 1FAF7-1FAF8 2B739 31350-323AF"
)
_CJK_IDEOGRAPHS = (
    "4E00-9FFF 3400-4DBF 20000-2A6DF 2A700-2B73F 2B740-2B81F 2B820-2CEAF F900-FAFF 2F800-2FA1F"
)
# Capitals of Unicode 14 that TensorFlow's ICU does not lowercase: first, last, and the
# distance to the lowercase letter.
_LATE_CAPITALS = (
    (0x2C2F, 0x2C2F, 48),
    (0xA7C0, 0xA7C0, 1),
    (0xA7D0, 0xA7D0, 1),
    (0xA7D6, 0xA7D6, 1),
    (0xA7D8, 0xA7D8, 1),
    (0x10570, 0x1057A, 39),
    (0x1057C, 0x1058A, 39),
    (0x1058C, 0x10592, 39),
    (0x10594, 0x10595, 39),
)
# Capitals that ICU lowercases by the rules of the machine's locale: Turkish, Azerbaijani and
# Lithuanian have their own.
_CAPITALS_OF_LOCALES = {
    "I": "i",
    "J": "j",
    "\u00cc": "\u00ec",
    "\u00cd": "\u00ed",
    "\u0128": "\u0129",
    "\u012e": "\u012f",
    "\u0130": "i\u0307",
}


def _character_ranges(code_points: str) -> str:
    """Converts `4E00-9FFF 2B739` to the contents of an RE2 character class."""
    ranges = [r"\x{" + item.replace("-", r"}-\x{") + "}" for item in code_points.split()]
    return "".join(ranges)


_PLAIN_ASCII = r"[\t\n\r -~]*"
# Whatever is in no other category is in C*, including unassigned code points.
_DROPPED = (
    r"[^\t\n\r\pL\pM\pN\pP\pS\pZ]|[\x{FFFD}" + _character_ranges(_ADDED_IN_UNICODE_15) + "]"
)
# Python's str.split() also splits at the line and paragraph separators.
_WHITESPACE = r"[\t\n\r\p{Zs}\x{2028}\x{2029}]+"
_WORDS_OF_ONE_CHARACTER = r"[!-/:-@\[-`{-~]|\p{P}|[" + _character_ranges(_CJK_IDEOGRAPHS) + "]"
_LATE_CAPITAL = "[" + "".join(rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b, _ in _LATE_CAPITALS) + "]"


class Tokenizer(tf.Module):
    """Converts texts to WordPiece ids, exactly as the authors' `FullTokenizer`.

    Special tokens are not protected: the text `[MASK]` becomes `[`, `mask`, `]`.
    """

    def __init__(
        self, vocabulary: Vocabulary, do_lower_case: bool = True, strip_accents: bool = True
    ):
        """Builds the matching automaton for `vocabulary`.

        Args:
            vocabulary: the WordPiece vocabulary.
            do_lower_case: lowercase the text.
            strip_accents: strip accents; requires `do_lower_case`.

        Raises:
            UserError: TensorFlow Text rejects the vocabulary.
        """
        super().__init__(name="tokenizer")
        self.vocabulary = vocabulary
        self.do_lower_case = do_lower_case
        self.strip_accents = do_lower_case and strip_accents
        tokens = list(vocabulary.tokens)
        known_characters = set("".join(tokens))
        # Replaces words above the maximum length, so that they become [UNK].
        self._unmatchable = next(
            chr(c) for c in range(1, 0x110000) if chr(c) not in known_characters
        )
        # Otherwise, the tokenizer of ASCII would match entries such as "in fact" in a text.
        tokens = [
            f"{self._unmatchable}{i}" if len(token.split()) > 1 else token
            for i, token in enumerate(tokens)
        ]
        try:
            self._words_to_pieces = tf_text.FastWordpieceTokenizer(
                tokens,
                suffix_indicator=CONTINUATION,
                # High enough to never apply: the limit is in code points, not bytes.
                max_bytes_per_word=8 * MAX_CODE_POINTS_PER_WORD,
                token_out_type=tf.int32,
                unknown_token=UNK,
                no_pretokenization=True,
            )
            # Twice as fast, with the same ids for plain ASCII.
            self._ascii_to_pieces = tf_text.FastBertTokenizer(
                tokens,
                suffix_indicator=CONTINUATION,
                max_bytes_per_word=MAX_CODE_POINTS_PER_WORD,
                token_out_type=tf.int32,
                unknown_token=UNK,
                lower_case_nfd_strip_accents=do_lower_case,
            )
        except (RuntimeError, ValueError, tf.errors.OpError) as error:
            raise UserError(
                f"Vocabulary file {vocabulary.path} cannot be used: {error}"
            ) from error

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes a batch of texts.

        Args:
            texts: string (n), UTF-8; invalid bytes are dropped, as U+FFFD is.

        Returns:
            int32 ragged (n, pieces): the ids, without [CLS] and [SEP].
        """
        return self._tokenize_in_graph(texts)

    def cut_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Step 4 of the tokenization: words to pieces.

        Args:
            words: string (n), as `split_words` returns them.

        Returns:
            int32 ragged (n, pieces).
        """
        is_long = tf.strings.length(words, unit="UTF8_CHAR") > MAX_CODE_POINTS_PER_WORD
        return self._words_to_pieces.tokenize(tf.where(is_long, self._unmatchable, words))

    # AutoGraph is not needed and would take longer than the rest of tracing.
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="texts")], autograph=False
    )
    def _tokenize_in_graph(self, texts: tf.Tensor) -> tf.RaggedTensor:
        is_ascii = tf.strings.regex_full_match(texts, _PLAIN_ASCII)
        ascii_rows = tf.reshape(tf.where(is_ascii), [-1])
        other_rows = tf.reshape(tf.where(~is_ascii), [-1])
        ascii_ids = self._ascii_to_pieces.tokenize(tf.gather(texts, ascii_rows))
        other_ids = self._tokenize_any(tf.gather(texts, other_rows))
        ids = tf.concat([ascii_ids, other_ids], axis=0)
        return tf.gather(ids, tf.argsort(tf.concat([ascii_rows, other_rows], axis=0)))

    def _tokenize_any(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = split_words(texts, self.do_lower_case, self.strip_accents)
        ids = self.cut_words(words.values)
        return tf.RaggedTensor.from_row_splits(
            ids.values, tf.gather(ids.row_splits, words.row_splits), validate=False
        )


def split_words(texts: tf.Tensor, do_lower_case: bool, strip_accents: bool) -> tf.RaggedTensor:
    """Steps 1 to 3 of the tokenization: texts to words.

    Args:
        texts: string (n), UTF-8; invalid bytes are dropped.
        do_lower_case: lowercase the text.
        strip_accents: strip accents; requires `do_lower_case`.

    Returns:
        string ragged (n, words).
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    texts = tf.strings.regex_replace(texts, _DROPPED, "")
    if do_lower_case:
        texts = _lower_late_capitals(texts)
        for capital, lowercase in _CAPITALS_OF_LOCALES.items():
            texts = tf.strings.regex_replace(texts, capital, lowercase)
        texts = tf.strings.lower(texts, encoding="utf-8")
        if strip_accents:
            texts = tf_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}+", "")
    return tf_text.regex_split(
        texts, f"{_WHITESPACE}|{_WORDS_OF_ONE_CHARACTER}", _WORDS_OF_ONE_CHARACTER
    )


def _lower_late_capitals(texts: tf.Tensor) -> tf.Tensor:
    """Lowercases what `tf.strings.lower` misses; costs one scan if there is nothing."""

    def lower() -> tf.Tensor:
        code_points = tf.strings.unicode_decode(texts, "UTF-8")
        first, last, distance = (
            tf.constant(column) for column in zip(*_LATE_CAPITALS, strict=True)
        )
        flat = code_points.flat_values[:, tf.newaxis]
        is_late_capital = tf.cast((flat >= first) & (flat <= last), tf.int32)
        shift = tf.reduce_sum(is_late_capital * distance, axis=1)
        lowered = code_points.with_flat_values(code_points.flat_values + shift)
        return tf.strings.unicode_encode(lowered, "UTF-8")

    found = tf.reduce_any(tf.strings.regex_full_match(texts, rf"(?s).*{_LATE_CAPITAL}.*"))
    return tf.cond(found, lower, lambda: texts)
