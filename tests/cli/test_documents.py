"""Documents of a local run: what is good is understood, what is bad is named in one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter, ValidationError

from walras_api.fields import Cores, Fraction, Portion, PositiveDecimal, UpToHalf
from walras_api.parse import parse_resource
from walras_cli.documents import InputError, read
from walras_cli.local.documents import load

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {
    "positive": PositiveDecimal,
    "fraction": Fraction,
    "portion": Portion,
    "half": UpToHalf,
    "cores": Cores,
}

ENTITLEMENT = """
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: ada}
spec: {shares: 3, namespaces: [default]}
"""

JOB = """
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {name: zip}
spec: {entitlement: ada, command: ["true", "{fraction}"], parallelFraction: "0.9"}
"""

PROFILE = """
apiVersion: walras.dev/v1alpha1
kind: SpeedupProfile
metadata: {name: zip}
spec:
  measurements:
  - {cores: 1, dataSize: 10%, seconds: ["1.0", "1.0"]}
  - {cores: 2, dataSize: 10%, seconds: ["0.6", "0.6"]}
  - {cores: 1, dataSize: 20%, seconds: ["2.0"]}
  - {cores: 2, dataSize: 20%, seconds: ["1.2"]}
"""


def write(folder: Path, *documents: str, name: str = "market.yaml") -> Path:
    file = folder / name
    file.write_text("---".join(documents))
    return file


def test_the_shape_of_the_design_is_understood(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: engineering}
spec: {shares: 1}
""",
        """
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: vision-lab}
spec: {shares: 3, parent: engineering, namespaces: [vision, vision-dev]}
""",
        """
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {name: train, namespace: vision}
spec:
  entitlement: vision-lab
  selector: {matchLabels: {app: train}}
  command: ["true"]
  work: "2.5"
  parallelFraction: "0.93"
  minCores: 1
  maxCores: 16
  memory: {min: 1Gi, max: 24Gi, demand: measured}
""",
        """
apiVersion: walras.dev/v1alpha1
kind: Market
metadata: {name: default}
spec:
  mode: enforce
  epochSeconds: 30
  cores: {mechanism: AmdahlBidding, reservedCores: 1, unit: core, hysteresis: "0.02"}
  memory: {mechanism: Karma, guaranteedFraction: "0.5", sliceSize: 128Mi, quantumSeconds: 10}
  colocation: {policy: None}
""",
    )
    market = load([file])
    (job,) = market.jobs
    assert (job.title, job.fraction, float(job.spec.work)) == ("vision/train", 0.93, 2.5)
    assert market.rules.cores.reserved_cores == 1
    assert market.rules.memory.slice_size == 128 * 2**20
    assert market.entitlements[1].parent == "engineering"


def test_a_decimal_may_be_written_as_a_number(tmp_path: Path) -> None:
    number = JOB.replace('"0.9"', "0.9")
    assert number != JOB
    (text,) = load([write(tmp_path, ENTITLEMENT, JOB)]).jobs
    (read,) = load([write(tmp_path, ENTITLEMENT, number)]).jobs
    assert read.spec == text.spec


def test_whole_numbers_are_as_good_as_decimals(tmp_path: Path) -> None:
    whole, decimal = (JOB.replace('"0.9"', text) for text in ("1, work: 2", "1.0, work: 2.0"))
    (one,) = load([write(tmp_path, ENTITLEMENT, whole)]).jobs
    (two,) = load([write(tmp_path, ENTITLEMENT, decimal)]).jobs
    assert one.spec == two.spec
    assert one.fraction == 1


def test_other_text_in_braces_is_left_alone(tmp_path: Path) -> None:
    command = JOB.replace('"{fraction}"', '"{print}", "{date}", "{{size1", "{file}"')
    (job,) = load([write(tmp_path, ENTITLEMENT, command)]).jobs
    assert job.spec.command == ["true", "{print}", "{date}", "{{size1", "{file}"]


def test_a_no_break_space_within_a_value_stays(tmp_path: Path) -> None:
    file = write(tmp_path, "kind: A\nmetadata: {name: a}\nspec: {text: a\u00a0b}\n")
    (found,) = read([file], lambda document: document)
    assert found.document["spec"] == {"text": "a\u00a0b"}


@pytest.mark.parametrize("name", FIELDS)
def test_examples_in_messages_are_taken_themselves(name: str) -> None:
    adapter: TypeAdapter[object] = TypeAdapter(FIELDS[name])
    for wrong in ("x", "99", -1, True, 0.50001):
        try:
            adapter.validate_python(wrong)
        except ValidationError as error:
            (example,) = re.findall('"([0-9.]+)"$', error.errors()[0]["msg"])
            adapter.validate_python(example)


def test_a_profile_of_the_jobs_own_name_is_used(tmp_path: Path) -> None:
    unknown = JOB.replace(', parallelFraction: "0.9"', "")
    (job,) = load([write(tmp_path, ENTITLEMENT, unknown, PROFILE)]).jobs
    assert job.fit is not None
    assert job.fraction == pytest.approx(0.8)
    assert job.fit.predict_seconds(1, 1.0) == pytest.approx(10)


def test_a_job_whose_profile_tells_nothing_of_f_is_measured_anew(tmp_path: Path) -> None:
    unknown = JOB.replace(', parallelFraction: "0.9"', "")
    noisy = PROFILE.replace('"0.6", "0.6"', '"0.5", "1.0"')
    (job,) = load([write(tmp_path, ENTITLEMENT, unknown, noisy)]).jobs
    assert (job.fit, job.fraction) == (None, None)


def test_a_list_as_kubectl_prints_it_is_understood(tmp_path: Path) -> None:
    items = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        "- " + document.strip().replace("\n", "\n  ") + "\n" for document in (ENTITLEMENT, JOB)
    )
    assert [job.name for job in load([write(tmp_path, items)]).jobs] == ["zip"]


BAD = {
    "unknown field": (
        [ENTITLEMENT.replace("shares", "shars"), JOB],
        "Entitlement ada: spec.shars: is not a known field; did you mean shares?",
    ),
    "unknown field far from any": (
        [ENTITLEMENT.replace("{shares: 3,", "{shares: 3, weight: 2,"), JOB],
        "Entitlement ada: spec.weight: is not a known field; delete it; known here: shares, parent",
    ),
    "negative share": (
        [ENTITLEMENT.replace("3", "-3"), JOB],
        "Entitlement ada: spec.shares: is -3; it must be at least 1",
    ),
    "NaN share": (
        [ENTITLEMENT.replace("3", ".nan"), JOB],
        'Entitlement ada: spec.shares: is ".nan"; it must be a whole number',
    ),
    "cyclic parents": (
        [
            ENTITLEMENT.replace("shares: 3", "shares: 3, parent: bob"),
            ENTITLEMENT.replace("name: ada", "name: bob").replace("3", "3, parent: ada"),
            JOB,
        ],
        (
            "Entitlement ada: spec.parent: entitlement ada is its own ancestor "
            "(ada -> bob -> ada); "
            "remove spec.parent from one of them"
        ),
    ),
    "unknown parent": (
        [ENTITLEMENT.replace("shares: 3", "shares: 3, parent: eve"), JOB],
        (
            "Entitlement ada: spec.parent: entitlement ada has parent eve, which does not exist; "
            "create it or correct spec.parent"
        ),
    ),
    "F above one": (
        [ENTITLEMENT, JOB.replace("0.9", "1.1")],
        'MarketJob default/zip: spec.parallelFraction: is "1.1"; it must be above 0 and at most 1',
    ),
    "F of zero": (
        [ENTITLEMENT, JOB.replace("0.9", "0")],
        'MarketJob default/zip: spec.parallelFraction: is "0"; it must be above 0 and at most 1',
    ),
    "F as NaN": (
        [ENTITLEMENT, JOB.replace('"0.9"', ".nan")],
        (
            "MarketJob default/zip: spec.parallelFraction: is '.nan'; "
            'write a plain decimal number, such as "0.9"'
        ),
    ),
    "F in per cent": (
        [ENTITLEMENT, JOB.replace('"0.9"', "97")],
        'spec.parallelFraction: is 97; it must be above 0 and at most 1, such as "0.9"',
    ),
    "F below zero": (
        [ENTITLEMENT, JOB.replace('"0.9"', "-1")],
        'spec.parallelFraction: is -1; it must be above 0 and at most 1, such as "0.9"',
    ),
    "F with a comma": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0,9"')],
        "spec.parallelFraction: is '0,9'; write a plain decimal number, such as \"0.9\"",
    ),
    "F as true": (
        [ENTITLEMENT, JOB.replace('"0.9"', "true")],
        'spec.parallelFraction: is true; write a decimal number in quotes, such as "0.9"',
    ),
    "a number in a command": (
        [ENTITLEMENT, JOB.replace('"true", "{fraction}"', "sleep, 1")],
        'MarketJob default/zip: spec.command[1]: is 1; quote it: write "1"',
    ),
    "a word in a command that YAML takes for false": (
        [ENTITLEMENT, JOB.replace('"true", "{fraction}"', "echo, no")],
        "spec.command[1]: is false; quote it: YAML takes yes, no, on and off for true and false",
    ),
    "a number as a name": (
        [ENTITLEMENT, JOB.replace("name: zip", "name: 123")],
        'metadata.name: is 123; quote it: write "123"',
    ),
    "a name that YAML takes for false": (
        [ENTITLEMENT, JOB.replace("name: zip", "name: no")],
        "metadata.name: is false; quote it: YAML takes yes, no, on and off for true and false",
    ),
    "a number as a label": (
        [ENTITLEMENT, JOB.replace("name: zip", "name: zip, labels: {rank: 1}")],
        'metadata.labels.rank: is 1; quote it: write "1"',
    ),
    "variables as an object": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0.9", env: {A: 1, B: x}')],
        (
            "spec.env: is {'A': 1, 'B': 'x'}; "
            'write a list, such as [{name: A, value: "1"}, {name: B, value: "x"}]'
        ),
    ),
    "variables as texts": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0.9", env: ["A=b=c"]')],
        'spec.env[0]: is A=b=c; write {name: A, value: "b=c"}',
    ),
    "a number as the value of a variable": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0.9", env: [{name: A, value: 1}]')],
        'spec.env[0].value: is 1; quote it: write "1"',
    ),
    "a text where an object belongs": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0.9", selector: zip')],
        "spec.selector: is zip; write an object, whose fields are matchLabels",
    ),
    "a text where true or false belongs": (
        [ENTITLEMENT, JOB.replace('"0.9"', '"0.9", wholeCores: "yes"')],
        "spec.wholeCores: is yes; write true or false, without quotes",
    ),
    "a key that is used twice": (
        [ENTITLEMENT.replace("shares: 3", "shares: 3, shares: 4"), JOB],
        "line 5, column 19: the key shares is used twice; keep one",
    ),
    "a no-break space before a value": (
        [ENTITLEMENT.replace("spec: ", "spec:\u00a0"), JOB],
        "line 5, column 6: there is a no-break space (U+00A0); write a plain space",
    ),
    "a no-break space before a key": (
        [ENTITLEMENT.replace("{shares: 3,", "{\u00a0shares: 3,"), JOB],
        "line 5, column 8: there is a no-break space (U+00A0); write a plain space",
    ),
    "a misspelt placeholder": (
        [ENTITLEMENT, JOB.replace("{fraction}", "{thread}")],
        "MarketJob default/zip: spec.command: {thread} is no placeholder; write {threads}",
    ),
    "a command as text": (
        [ENTITLEMENT, JOB.replace('["true", "{fraction}"]', '"python3 work.py"')],
        (
            "MarketJob default/zip: spec.command: is python3 work.py; "
            'write a list, such as ["python3", "work.py"]'
        ),
    ),
    "a program that does not exist": (
        [ENTITLEMENT, JOB.replace('"true"', "no-such-program")],
        (
            "MarketJob default/zip: spec.command: no-such-program: command not found in PATH; "
            "install it or correct the first word"
        ),
    ),
    "not YAML": (
        ["a: [1, 2"],
        (
            "line 1, column 9: is not YAML: expected ',' or ']', but got '<stream end>'; "
            "correct the YAML there"
        ),
    ),
    "two documents of one name": (
        [ENTITLEMENT, ENTITLEMENT, JOB],
        "Entitlement ada: metadata.name: is used twice",
    ),
    "a job without a program": (
        [ENTITLEMENT, JOB.replace('command: ["true", "{fraction}"]', "selector: {}")],
        ("MarketJob default/zip: spec.command: is missing; a local run needs a program to start"),
    ),
    "zero cores": (
        [ENTITLEMENT, JOB.replace("entitlement: ada", "entitlement: ada, maxCores: 0")],
        "MarketJob default/zip: spec.maxCores: is 0; it must be at least 1",
    ),
    "an unknown entitlement": (
        [ENTITLEMENT, JOB.replace("entitlement: ada", "entitlement: eve")],
        (
            "MarketJob default/zip: spec.entitlement: entitlement eve does not exist; "
            "create it or name one that admits namespace default (ada)"
        ),
    ),
    "a namespace that is not admitted": (
        [ENTITLEMENT.replace("[default]", "[vision]"), JOB],
        (
            "MarketJob default/zip: spec.entitlement: entitlement ada does not admit namespace "
            "default; have it added to the entitlement's spec.namespaces"
        ),
    ),
    "a job that cannot be profiled": (
        [
            ENTITLEMENT,
            JOB.replace(', "{fraction}"', "").replace(', parallelFraction: "0.9"', ""),
        ],
        "MarketJob default/zip: spec.command: cannot be profiled on part of its data",
    ),
    "data that are not there": (
        [
            ENTITLEMENT,
            JOB.replace("{fraction}", "{data}").replace("ada,", "ada, data: {path: nowhere},"),
        ],
        "nowhere: no such file or folder",
    ),
    "a profile that is not there": (
        [ENTITLEMENT, JOB.replace('parallelFraction: "0.9"', "profile: unzip")],
        "MarketJob default/zip: spec.profile: there is no SpeedupProfile default/unzip",
    ),
    "a profile that shows nothing": (
        [
            ENTITLEMENT,
            JOB.replace(', parallelFraction: "0.9"', ""),
            PROFILE.replace("cores: 2", "cores: 1"),
        ],
        "MarketJob default/zip: spec.profile: cannot be used",
    ),
    "another API version": (
        [ENTITLEMENT.replace("v1alpha1", "v1"), JOB],
        "Entitlement ada: apiVersion: is walras.dev/v1; write walras.dev/v1alpha1",
    ),
    "a market of another name": (
        [
            ENTITLEMENT,
            JOB,
            "\napiVersion: walras.dev/v1alpha1\nkind: Market\nmetadata: {name: mine}\n",
        ],
        "Market mine: metadata.name: only the Market named default is used; rename it",
    ),
    "no job": ([ENTITLEMENT], "contains no MarketJob; add one with a command"),
    "nothing at all": ([""], "contains no documents"),
    "a list where an object belongs": (["[1, 2]"], "document 1: is not an object"),
}


@pytest.mark.parametrize(("documents", "line"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_with_file_object_field_and_way_out(
    tmp_path: Path, documents: list[str], line: str
) -> None:
    file = write(tmp_path, *documents)
    with pytest.raises(InputError) as caught:
        load([file])
    (problem,) = [p for p in caught.value.problems if "is missing; add it" not in p]
    assert problem.startswith(f"{file}: ")
    assert line in problem
    assert "\n" not in problem


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load([tmp_path / "nowhere.yaml"])


def test_problems_have_the_line_of_what_is_wrong(tmp_path: Path) -> None:
    """Also within lists, and of a field that is missing: the line of what it is missing in."""
    text = """\
apiVersion: v1
kind: List
items:
- apiVersion: walras.dev/v1alpha1
  kind: Entitlement
  metadata: {name: ada}
  spec:
    shares: 1
    namespaces:
    - lab
    - Lab
- apiVersion: walras.dev/v1alpha1
  kind: Entitlement
  metadata:
    name: bob
  spec:
    namespaces: [lab]
---
---
apiVersion: walras.dev/v1alpha1
kind: Entitlement
metadata: {name: eve}
spec: {shares: 1, share: 2}
"""
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read([file], parse_resource)
    lines = [problem.removeprefix(f"{file}: ")[:24] for problem in caught.value.problems]
    assert lines == [f"line {line}: Entitlement {name}" for line, name in WRONG_LINES]


WRONG_LINES = ((11, "ada"), (16, "bob"), (23, "eve"))


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, ENTITLEMENT.replace("3", "0"), JOB.replace('"0.9"', "1.9"))
    with pytest.raises(InputError) as caught:
        load([file])
    assert len(caught.value.problems) == 2


def test_an_unknown_entitlement_is_not_hidden_by_another_problem(tmp_path: Path) -> None:
    job = JOB.replace("entitlement: ada", "entitlement: eve").replace('"true"', "no-such-program")
    file = write(tmp_path, ENTITLEMENT, job)
    with pytest.raises(InputError) as caught:
        load([file])
    first, second = caught.value.problems
    assert "no-such-program: command not found" in first
    assert "entitlement eve does not exist" in second


LAUGHS = "a0: &a0 [ha]\n" + "".join(
    f"a{line}: &a{line} [{','.join(9 * [f'*a{line - 1}'])}]\n" for line in range(1, 10)
)
"""Lists of lists of lists, by aliases; each line is nine times the one before."""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: [MarketJob]\nmetadata: {name: j}\n", "object whose kind is not a text"),
        (f"a: {'9' * 5000}\n", "cannot be used"),
        ("[" * 3000, "YAML"),
        (LAUGHS, "aliases"),
        ("spec: &itself {env: *itself}", "aliases"),
    ],
    ids=[
        "kind that is a list",
        "number of 5000 digits",
        "3000 levels",
        "a billion values in ten lines",
        "object within itself",
    ],
)
def test_odd_yaml_is_a_problem_and_no_crash(tmp_path: Path, text: str, problem: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as refused:
        load([file])
    assert any(str(file) in each and problem in each for each in refused.value.problems)


def test_times_are_texts_as_for_the_api_server(tmp_path: Path) -> None:
    """YAML 1.1 would read a date, which may not exist, and 12:30 as 750."""
    texts = "{deadline: 2027-01-31T12:00:00Z, never: 2027-02-30T12:00:00Z, time: 12:30, n: 750}"
    file = write(tmp_path, f"kind: Any\nmetadata: {{name: a}}\nspec: {texts}\n")
    (found,) = read([file], lambda document: document)
    assert found.document["spec"] == {
        "deadline": "2027-01-31T12:00:00Z",
        "never": "2027-02-30T12:00:00Z",
        "time": "12:30",
        "n": 750,
    }


@pytest.mark.parametrize("path", ["~nobody-has-this-name/x", "loop"])
def test_paths_that_lead_nowhere_are_problems(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    job = f"""
apiVersion: walras.dev/v1alpha1
kind: MarketJob
metadata: {{name: j}}
spec: {{entitlement: e, command: [wc, "{{data}}"], parallelFraction: 0.5, data: {{path: {path}}}}}
"""
    with pytest.raises(InputError, match="MarketJob default/j"):
        load([write(tmp_path, job)])
