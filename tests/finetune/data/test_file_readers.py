"""Tests of the readers of users' files."""

import gzip

import pyarrow
import pytest
from pyarrow import parquet

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.data.file_readers import read_records, read_text
from finetune.data.raw_examples import RawExample

TEXT_LABEL = {"text_a": "text", "label": "label"}


def write(tmp_path, name, content):
    path = tmp_path / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def values(records):
    return [(record.line, record.values) for record in records]


def test_tsv_splits_at_tabs_alone(tmp_path):
    path = write(tmp_path, "a.tsv", '\ufefflabel\ttext\r\n1\t"a, b\r\n0\tc\u2028d\n\n')
    records = read_records(path, file_format="tsv", columns=TEXT_LABEL)
    assert values(records) == [
        (2, {"text_a": '"a, b', "label": "1"}),
        (3, {"text_a": "c\u2028d", "label": "0"}),
    ]


def test_a_format_without_a_reader_is_not_read_as_another(tmp_path):
    path = write(tmp_path, "a.xml", "text\tlabel\na\t1\n")
    with pytest.raises(KeyError, match="xml"):
        read_records(path, file_format="xml", columns=TEXT_LABEL)


def test_columns_by_index_without_header(tmp_path):
    path = write(tmp_path, "a.tsv.gz", "x\ty\tz\n1\t2\t3\n")
    columns = {"text_a": 1, "label": -1}
    records = read_records(path, file_format="tsv", columns=columns, header=False)
    assert values(records) == [
        (1, {"text_a": "y", "label": "z"}),
        (2, {"text_a": "2", "label": "3"}),
    ]


def test_csv_quotes_and_line_breaks_within_them(tmp_path):
    path = write(tmp_path, "a.csv", 'text,label\n"a\n""b"", c",1\nd,0\n')
    records = read_records(path, file_format="csv", columns=TEXT_LABEL)
    assert values(records) == [
        (2, {"text_a": 'a\n"b", c', "label": "1"}),
        (4, {"text_a": "d", "label": "0"}),
    ]


@pytest.mark.parametrize(
    ("name", "rows", "warning"),
    [
        ("a.tsv", 'x\t"1"\n', "line 2: the quotation marks around label"),
        ("a.tsv", 'x\t1\n"say ""x"""\t0\n', "line 3: the quotation marks around text_a"),
        ("a.csv", 'x, "1"\n', "not even a space"),
        ("a.tsv", '"x"\t1\n', ""),  # direct speech
        ("a.tsv", '"x" and "y"\t1\n', ""),
        ("a.tsv", '"\t"\n', ""),
        ("a.csv", '"say ""x""","1"\n', ""),
        ("a.csv", '"""x""",1\n', ""),
    ],
)
def test_quotation_marks_that_stay_are_warned_of(tmp_path, capsys, name, rows, warning):
    warn_once.cache_clear()
    header = "text\tlabel\n" if name.endswith("tsv") else "text,label\n"
    path = write(tmp_path, name, header + rows)
    read_records(path, file_format=name.split(".")[1], columns=TEXT_LABEL)
    said = capsys.readouterr().err
    assert warning in said
    assert bool(said) == bool(warning)


def test_jsonl_keeps_lists_and_skips_blank_lines(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"w": ["a", "b"], "t": ["O", "B-X"]}\n\n{"w": ["c"]}\n')
    columns = {"words": "w", "tags": "t"}
    records = read_records(path, file_format="jsonl", columns=columns, optional=("tags",))
    assert values(records) == [
        (1, {"words": ["a", "b"], "tags": ["O", "B-X"]}),
        (3, {"words": ["c"]}),
    ]


def test_conll_sentences_end_at_blank_lines_and_documents(tmp_path):
    content = "-DOCSTART- -X- O\n\na DT B-NP\nb NN I-NP\n\n\n -DOCSTART- -X- O\nc VB O"
    path = write(tmp_path, "a.conll", content)
    records = read_records(path, file_format="conll", columns={"words": 0, "tags": -1})
    assert values(records) == [
        (3, {"words": ["a", "b"], "tags": ["B-NP", "I-NP"]}),
        (8, {"words": ["c"], "tags": ["O"]}),
    ]


def test_a_word_that_begins_like_a_document_start_is_a_word(tmp_path):
    path = write(tmp_path, "a.conll", "-DOCSTART-s NN B-NP\nend VB O\n")
    (record,) = read_records(path, file_format="conll", columns={"words": 0, "tags": -1})
    assert record.values["words"] == ["-DOCSTART-s", "end"]


CHUNKS = {"words": 0, "tags": -1}
CONLL_U = {"words": 1, "tags": 3}


@pytest.mark.parametrize(
    ("content", "columns", "sentences"),
    [
        # As many columns as words have.
        ("# text = a b\na X Y Z\nb X Y Z\n", CHUNKS, ["a b"]),
        ("# newdoc\na O\nb O\n\n# id\nc O\n", CHUNKS, ["a b", "c"]),
        # Fewer or more of them; the first line does not tell the number of columns.
        ("# a comment of several words\n# another\na O\n", CHUNKS, ["a"]),
        ("# text = a b\na\tO\nb\tO\n", CHUNKS, ["a b"]),
        ("# x\na\tO\n", CHUNKS, ["a"]),
        # Words.
        ("# # B-NP\n1.5 CD B-NP\n", CHUNKS, ["# 1.5"]),
        ("1.5 CD B-NP\n# # B-NP\n", CHUNKS, ["1.5 #"]),
        ("#\tO\na\tO\n", CHUNKS, ["# a"]),
        ("#hashtag O\n#b O\n", CHUNKS, ["#hashtag #b"]),
        ("#\na\n\n# a comment\nb\n", {"words": 0}, ["# a", "b"]),
        # CoNLL-U, with a word of two tokens, one that is not in the text, and a "#".
        (
            "# text = a vámonos #\n1\ta\t_\tX\n2-3\tvámonos\t_\t_\n2\tvamos\t_\tV\n"
            "3\tnos\t_\tP\n3.1\tx\t_\t_\n4\t#\t_\tS\n\n# a\tb\tc\td\n1\tb\t_\tX\n",
            CONLL_U,
            ["a vamos nos #", "b"],
        ),
        # A range that is a word.
        ("3-4\tN\tO\n8.1\tN\tO\n", CHUNKS, ["3-4 8.1"]),
        ("#begin document (a); part 000\na 0 w O\n#end document\n", {"words": 2}, None),
        ("#begin document (a); part 000\na 0 w O\n\n#end document\n", {"words": 2}, ["w"]),
    ],
)
def test_comments_and_no_words_of_conll_files(tmp_path, content, columns, sentences):
    path = write(tmp_path, "a.conll", content)
    if sentences is None:
        with pytest.raises(UserError, match="line 3 has 2 columns"):
            read_records(path, file_format="conll", columns=columns)
        return
    records = read_records(path, file_format="conll", columns=columns)
    assert [" ".join(r.values["words"]) for r in records] == sentences


def test_a_comment_that_only_its_tag_tells_is_warned_of(tmp_path, capsys):
    path = write(tmp_path, "a.conll", "# newdoc\na O\n")
    read_records(path, file_format="conll", columns=CHUNKS)
    warned = "line 1 ('# newdoc') is taken for a comment: no other word has the tag 'newdoc'"
    assert warned in capsys.readouterr().err


def test_numbers_of_words_are_not_taken_for_words(tmp_path):
    path = write(tmp_path, "a.conll", "1\ta\tO\n2\tb\tO\n3\tc\tO\n")
    with pytest.raises(UserError, match=r"at line 1 are 1, 2, 3, …: the words are in"):
        read_records(path, file_format="conll", columns=CHUNKS)


def test_conll_words_may_hold_blanks_between_tabs(tmp_path):
    path = write(tmp_path, "a.conll", "New York\tB-LOC\nis\tO\n")
    (record,) = read_records(path, file_format="conll", columns={"words": 0, "tags": 1})
    assert record.values["words"] == ["New York", "is"]


@pytest.mark.parametrize(
    "content",
    [
        "EU NNP B-NP\t\nrejects VBZ O \t\n",
        "EU\tNNP\tB-NP\t\nrejects\tVBZ\tO\t \n",
        "EU\tNNP\tB-NP\t\t\n\nrejects\tVBZ\tO\t\t\n",
    ],
)
def test_tabs_behind_every_line_of_a_conll_file_are_no_column(tmp_path, content):
    path = write(tmp_path, "a.conll", content)
    records = read_records(path, file_format="conll", columns={"words": 0, "tags": -1})
    assert [word for r in records for word in r.values["words"]] == ["EU", "rejects"]
    assert [tag for r in records for tag in r.values["tags"]] == ["B-NP", "O"]


def test_an_empty_last_column_of_some_conll_lines_stays(tmp_path):
    path = write(tmp_path, "a.conll", "a\tB-X\t\nb\tO\tnote\n")
    (record,) = read_records(path, file_format="conll", columns={"words": 0, "tags": 1})
    assert record.values["tags"] == ["B-X", "O"]
    (record,) = read_records(path, file_format="conll", columns={"words": 0, "tags": -1})
    assert record.values["tags"] == ["", "note"]


def test_missing_optional_columns_are_left_out(tmp_path):
    path = write(tmp_path, "a.tsv", "text\nhello\n")
    (record,) = read_records(path, file_format="tsv", columns=TEXT_LABEL, optional=("label",))
    assert record.values == {"text_a": "hello"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "", r"a\.tsv is empty"),
        ("a.tsv", "\ufeff\n", "is empty"),
        ("a.tsv", "text\tlabel\n", "contains no examples, only a header"),
        ("a.tsv", "Text\tlabel\nx\t1\n", r"no column 'text' \(text_a\).* Text, label\. Did"),
        ("a.tsv", "text\tlabel\ttext\nx\t1\ty\n", "more than one column 'text'"),
        ("a.tsv", "text\tlabel\nx\t1\nx\n", "line 3 has 1 column, but the header has 2$"),
        ("a.tsv", "text\tlabel\na\tb\t1\n", "line 2 has 3 columns, .* must be quoted"),
        ("a.tsv", 'text\tlabel\n"a\nb"\t1\n', "line 2 has 1 column, .* read without quoting"),
        ("a.tsv", "text\tlabel\n\nx\t1\n", "line 2 is blank"),
        ("a.csv", "text,label\nx,1\ny\n", "line 3 has 1 column"),
        ("a.csv", "text,label\nx,1\n\ufefftext,label\ny,1\n", "line 3 repeats the first line"),
        ("a.csv", 'text,label\nx,1\n"y,0\nz,1\n', "record at line 3 is not valid csv"),
        ("a.csv", b"text,label\nx,1\n\xb0\xa1,0\n", r"line 3 is not UTF-8 \(byte 0xb0\)"),
        ("a.csv", b"\xef\xbb\xbftext,label\n\xb0,0\n", r"line 2 is not UTF-8"),
        ("a.csv", "text,label\nx,1".encode("utf-16"), r"is UTF-16 \(iconv -f UTF-16 -t UTF-8"),
        ("a.csv", "text,label\nx,1".encode("utf-32"), r"is UTF-32 \(iconv -f UTF-32 -t UTF-8"),
        ("a.csv", "text,label\nx,1".encode("utf-16-le"), "many of its bytes are NUL"),
        ("a.csv", gzip.compress(b"text,label\nx,1", mtime=0), "is compressed with gzip"),
        ("a.csv", b"PK\x03\x04\x14\0", "is a ZIP archive, as are .xlsx"),
        ("a.csv", b"text;label\nx;1", "It is separated by semicolons: save it with commas"),
        ("a.csv", b"text\tlabel\nx\t1", r'separated by tabs \(its "format" is tsv\)\.$'),
        ("a.tsv", b'"text","label"\nx,1', r'separated by commas \(its "format" is csv\)\.$'),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', "line 2 is not valid JSON"),
        ("a.jsonl", '{"text": "a", "label": 1, "label": 0}', "line 1 .* duplicate key 'label'"),
        ("a.jsonl", "[1]\n", r"line 1 must be a JSON object, not \[1\]"),
        ("a.jsonl", '{"texts": "a", "label": 1}', "line 1 has no 'text' .* texts, label. Did"),
        (
            "a.jsonl",
            '{"text_a": "", "text_b": ""}',
            "Did you mean 'text_a'. Then set \"columns",
        ),
        ("a.csv", "text_b,text_a,label\nx,y,1", "Did you mean 'text_a'. Then set \"columns"),
        ("a.jsonl", '{"text": null, "label": 1}', "line 1 has no 'text' .*: it is null; fill"),
        ("a.tsv", "text\tlabel\rw\t1\r", "its lines end in carriage returns"),
    ],
)
def test_broken_files_are_named_with_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(UserError, match=message) as error:
        read_records(path, file_format=name.split(".")[1], columns=TEXT_LABEL)
    assert path in str(error.value)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_columns_that_look_the_same_are_told_apart(tmp_path, name):
    content = "r\u00e9ponse\tlabel\nx\t1\n"
    if name == "a.jsonl":
        content = '{"r\u00e9ponse": "x", "label": "1"}\n'
    columns = {"text_a": "re\u0301ponse", "label": "label"}
    with pytest.raises(UserError, match="the same text in another Unicode form"):
        read_records(
            write(tmp_path, name, content), file_format=name.split(".")[1], columns=columns
        )


def test_missing_and_broken_compressed_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"No such file: .*none\.tsv"):
        read_records(str(tmp_path / "none.tsv"), file_format="tsv", columns=TEXT_LABEL)
    with pytest.raises(UserError, match="is a folder, not a file"):
        read_records(str(tmp_path), file_format="tsv", columns=TEXT_LABEL)
    whole = gzip.compress(b"text\tlabel\nx\t1\n")
    for broken in (b"text", whole[:-4]):
        path = tmp_path / "a.tsv.gz"
        path.write_bytes(broken)
        with pytest.raises(UserError, match=r"a\.tsv\.gz is not a complete \.gz file"):
            read_records(str(path), file_format="tsv", columns=TEXT_LABEL)


def test_conll_errors(tmp_path):
    path = write(tmp_path, "a.conll", "a DT O\nb O\n")
    with pytest.raises(UserError, match="line 2 has 2 columns, but line 1 has 3"):
        read_records(path, file_format="conll", columns={"words": 0, "tags": -1})
    with pytest.raises(UserError, match=r"no column 3 \(tags\): line 1 has 3 columns"):
        read_records(path, file_format="conll", columns={"words": 0, "tags": 3})
    with pytest.raises(UserError, match=r"must be indices .* words is 'token'"):
        read_records(path, file_format="conll", columns={"words": "token", "tags": 3})


@pytest.mark.parametrize("label", [0, -2, "text"])
@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_two_roles_have_different_columns(tmp_path, name, label):
    if name == "a.csv":
        write(tmp_path, name, "text,label\na,x\n")
    else:
        parquet.write_table(pyarrow.table({"text": ["a"], "label": ["x"]}), tmp_path / name)
    columns = {"text_a": 0, "id": 0, "group": "text", "label": label}

    def read(**others):
        file_format = name.split(".")[1]
        path = str(tmp_path / name)
        return read_records(path, file_format=file_format, columns=columns | others)

    assert values(read(label=1)) == [
        (1 + (name == "a.csv"), {"text_a": "a", "id": "a", "group": "a", "label": "x"})
    ]
    with pytest.raises(UserError, match=f"{name}: .* same column .* 'text_a' and as 'label'$"):
        read()


def test_an_index_that_is_the_name_of_another_column_is_warned_of(tmp_path, capsys):
    path = write(tmp_path, "a.csv", ",0,1\n0,2.5,a\n1,3.5,b\n")  # as pandas writes its index

    def read(text, label):
        columns = {"text_a": text, "label": label}
        return read_records(path, file_format="csv", columns=columns)[0].values["label"]

    assert read("1", "0") == read(2, "0") == "2.5"
    assert capsys.readouterr().err == ""
    assert read(1, 0) == "0"
    warned = capsys.readouterr().err
    assert (
        'column 1 (text_a), counted from 0, is "0"; if the one that line 1 names "1"' in warned
    )
    assert 'column 0 (label), counted from 0, is ""; if the one that line 1 names "0"' in warned
    assert "is meant, give 2" in warned


def test_names_need_a_header(tmp_path):
    path = write(tmp_path, "a.tsv", "a\tb\n")
    with pytest.raises(UserError, match="without a header"):
        read_records(path, file_format="tsv", columns=TEXT_LABEL, header=False)


def record(value):
    return RawExample("a.jsonl", 4, {"x": value})


def test_labels_of_all_spellings():
    assert record(" yes ").label("x") == "yes"
    assert record(1).label("x") == "1"
    assert record(True).label("x") == "true"
    assert record("a; b;a").labels("x", ";") == ["a", "b"]
    assert record(["a", 2]).labels("x", ",") == ["a", "2"]
    assert record("").labels("x", ",") == []
    assert record(" 2.5").number("x") == 2.5
    assert record("New York").words("x") == ["New", "York"]


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("text", " \t", "x is empty"),
        ("text", 3, "x must be a string, not 3"),
        ("label", "", "x is empty"),
        ("label", 1.5, "x must be a string, an integer or a boolean, not 1.5"),
        ("number", "high", 'x must be a number, not "high"'),
        ("number", "nan", "x must be a number"),
        ("number", "inf", "x must be a number"),
        (
            "number",
            "-1e308",
            r"x -1e\+308 is too large: .*; does it mean that the value is missing",
        ),
        ("number", True, "x must be a number, not true"),
        ("number", None, "x must be a number, not null"),
        ("words", "", "x is empty"),
        ("words", ["a", 1], r'x must be a list of strings, not \["a", 1\]'),
        ("words", ["a", " "], "x contains an empty string"),
    ],
)
def test_bad_values_are_named_with_line(method, value, message):
    with pytest.raises(UserError, match=rf"a\.jsonl: line 4: {message}"):
        getattr(record(value), method)("x")


def test_bad_label_lists_are_named():
    with pytest.raises(UserError, match="line 4: x is empty"):
        record("a,,b").labels("x", ",")
    with pytest.raises(UserError, match="line 4: x must be a list of labels, not 3"):
        record(3).labels("x", ",")


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        (["one,a", "two,b", "three,a"], True),
        (["one,2.5", "two,3", "three,-.5"], True),
        (["one,c", "two,b", "three,a"], False),
        (["text,label", "two,3", "three,1"], False),
        (["0,1", "two,1", "three,0"], False),  # as pandas names columns
    ],
)
def test_an_example_read_as_a_header_is_warned_of(tmp_path, capsys, lines, warned):
    path = tmp_path / "train.csv"
    path.write_text("\n".join(lines))
    columns = {"text_a": 0, "label": -1}
    assert len(read_records(str(path), file_format="csv", columns=columns)) == 2
    expected = "is read as the names of the columns; if it is an example"
    assert (expected in capsys.readouterr().err) == warned
    by_name = dict(zip(columns, lines[0].split(","), strict=True))
    assert len(read_records(str(path), file_format="csv", columns=by_name)) == 2
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.tsv"
    path.touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(UserError, match=f"^{path} cannot be read: Permission denied$"):
        read_text(str(path))


def test_conll_columns_need_no_words(tmp_path):
    path = write(tmp_path, "train.conll", "a B\n# B\n\n# comment of three\nd B\n")
    records = read_records(path, file_format="conll", columns={"text": 0})
    assert values(records) == [(1, {"text": ["a", "#"]}), (5, {"text": ["d"]})]
