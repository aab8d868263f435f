"""MarketJobs are made for labelled workloads, changed with them, and never for anybody else's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from counted_calls import calls_of
from walras_api.cluster import OwnerReference, Pod
from walras_api.kinds import MarketJob
from walras_api.selection import OwnerKey
from walras_operator.decide.workload_jobs import workload_jobs
from walras_operator.decide.workload_owners import pods_controllers, unread_owners
from whole_decisions import decide
from worlds import (
    condition,
    document,
    enforced,
    entitlement,
    grants,
    job,
    market,
    node,
    outcome,
    pod,
    status,
    world,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from walras_operator.decide.world import Document, World
    from whole_decisions import Decision

LABEL = "walras.dev/job"


def owner(kind: str, name: str, version: str = "batch/v1", uid: str = "") -> dict[str, Any]:
    """Return a reference to a controller."""
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid or f"uid-{kind}-{name}",
        "controller": True,
    }


def member(
    name: str,
    controller: dict[str, Any] | None = None,
    *,
    settings: dict[str, str] | None = None,
    label: str | None = "",
    **metadata: Any,
) -> Document:
    """Return a labelled pod of a controller."""
    marks = {} if label is None else {LABEL: label}
    return pod(
        name,
        labels={**marks, **metadata.pop("labels", {})},
        annotations={f"walras.dev/{key}": value for key, value in (settings or {}).items()},
        ownerReferences=[] if controller is None else [controller],
        **metadata,
    )


def namespace(name: str = "lab", **labels: str) -> Document:
    return document("Namespace", name, metadata={"labels": labels})


def workload(kind: str, name: str, version: str = "batch/v1", **annotations: str) -> Document:
    made = document(kind, name, "lab", metadata={"uid": f"uid-{kind}-{name}"})
    made["apiVersion"] = version
    made["metadata"] |= {"labels": {LABEL: ""}, "annotations": annotations}
    return made


def seen(*documents: Document, known: Mapping[str, dict[str, Any] | None] | None = None) -> World:
    """Return a world in which the controllers of owners are known, by the owner's name."""
    before = world(market(), entitlement(), node(), *documents)
    controllers: dict[OwnerKey, OwnerReference | None] = {
        OwnerKey(each.metadata.namespace, reference): None
        for each in before.objects.pods
        for reference in each.metadata.owner_references
    }
    for name, controller in (known or {}).items():
        above = None if controller is None else OwnerReference.model_validate(controller)
        controllers |= {key: above for key in controllers if key.owner.name == name}
        if above is not None:
            controllers.setdefault(OwnerKey("lab", above), None)
    return replace(before, objects=replace(before.objects, controllers=controllers))


def specs(decision: Decision) -> dict[str, Document]:
    return {
        each.object.name: each.document["spec"]
        for each in decision.jobs
        if each.document is not None
    }


def target(version: str, kind: str, name: str) -> Document:
    return {"apiVersion": version, "kind": kind, "name": name}


FRAMEWORKS: dict[str, tuple[dict[str, Any] | None, dict[str, Any], Document]] = {
    "Job": (owner("Job", "train"), {}, target("batch/v1", "Job", "train")),
    "Deployment": (
        owner("ReplicaSet", "web-7d9", "apps/v1"),
        {"web-7d9": owner("Deployment", "web", "apps/v1")},
        target("apps/v1", "Deployment", "web"),
    ),
    "StatefulSet": (
        owner("StatefulSet", "db", "apps/v1"),
        {},
        target("apps/v1", "StatefulSet", "db"),
    ),
    "CronJob's Job": (
        owner("Job", "night-29"),
        {"night-29": owner("CronJob", "night")},
        target("batch/v1", "Job", "night-29"),
    ),
    "JobSet": (
        owner("Job", "set-workers-0"),
        {"set-workers-0": owner("JobSet", "set", "jobset.x-k8s.io/v1alpha2")},
        target("jobset.x-k8s.io/v1alpha2", "JobSet", "set"),
    ),
    "RayJob": (
        owner("RayCluster", "ray-raycluster-x", "ray.io/v1"),
        {"ray-raycluster-x": owner("RayJob", "ray", "ray.io/v1")},
        target("ray.io/v1", "RayJob", "ray"),
    ),
    "PyTorchJob": (
        owner("PyTorchJob", "bert", "kubeflow.org/v1"),
        {},
        target("kubeflow.org/v1", "PyTorchJob", "bert"),
    ),
    "SparkApplication's driver": (
        owner("SparkApplication", "pi", "sparkoperator.k8s.io/v1beta2"),
        {"pi": owner("ScheduledSparkApplication", "nightly-pi", "sparkoperator.k8s.io/v1beta2")},
        target("sparkoperator.k8s.io/v1beta2", "SparkApplication", "pi"),
    ),
    "Argo Workflow": (
        owner("Workflow", "steps-x", "argoproj.io/v1alpha1"),
        {"steps-x": owner("CronWorkflow", "steps", "argoproj.io/v1alpha1")},
        target("argoproj.io/v1alpha1", "Workflow", "steps-x"),
    ),
    "a kind of somebody's own": (
        owner("Farm", "f", "example.org/v3"),
        {},
        target("example.org/v3", "Farm", "f"),
    ),
    "a bare pod": (None, {}, target("v1", "Pod", "p-0")),
}


@pytest.mark.parametrize(("controller", "known", "top"), FRAMEWORKS.values(), ids=FRAMEWORKS.keys())
def test_a_labelled_pods_workload_takes_part(
    controller: dict[str, Any] | None, known: dict[str, Any], top: Document
) -> None:
    before = seen(member("p-0", controller), member("p-1", controller), known=known)
    if controller is None:
        before = seen(member("p-0"))
    decision = decide(before)
    (write,) = decision.jobs
    assert write.document is not None
    assert write.document["spec"]["targetRef"] == top
    assert write.document["spec"]["entitlement"] == "vision"
    (reference,) = write.document["metadata"]["ownerReferences"]
    assert {key: reference[key] for key in top} == top
    assert reference["uid"]
    after = outcome(before, decision)
    second = decide(after)
    assert second.jobs == ()
    pods = {name for each in grants(second).values() for name in each}
    assert pods == {each.metadata.name for each in before.objects.pods}
    shown = status(second, "MarketJob", write.object.name, "lab")["workload"]
    assert shown == f"auto ({top['kind']}/{top['name']})"


def test_what_a_schedule_makes_is_one_program() -> None:
    """The next run finds the speedup that was measured on the last."""
    before = seen(
        member("p", owner("Job", "night-29")), known={"night-29": owner("CronJob", "night")}
    )
    assert specs(decide(before))["night-29"]["program"] == "night"


def test_a_programs_profile_outlives_its_job() -> None:
    before = seen(member("p", owner("Job", "train"), settings={"program": "bert"}))
    after = outcome(before, decide(before))
    granted = outcome(after, decide(after))
    (write,) = decide(enforced(granted)).profiles
    assert write.object.name == "bert"
    assert "ownerReferences" not in write.document["metadata"]


def test_fields_are_set_by_annotations() -> None:
    settings = {
        "max-cores": "4",
        "memory": "measured",
        "min-cores": "2",
        "parallel-fraction": "0.95",
        "progress-metric": "steps_total",
        "progress-path": "/metrics",
        "progress-port": "8080",
        "work": "2.5",
    }
    spec = specs(decide(seen(member("p", owner("Job", "train"), settings=settings))))["train"]
    assert spec == {
        "entitlement": "vision",
        "targetRef": target("batch/v1", "Job", "train"),
        "maxCores": 4,
        "minCores": 2,
        "parallelFraction": "0.95",
        "work": "2.5",
        "memory": {"demand": "measured"},
        "progress": {"http": {"port": 8080, "path": "/metrics", "metric": "steps_total"}},
    }


def test_a_label_on_the_workload_does_as_well() -> None:
    """A running Job's pods cannot be given another template."""
    controller = owner("ReplicaSet", "web-7d9", "apps/v1")
    above = owner("Deployment", "web", "apps/v1")
    before = seen(
        member("a", controller, label=None),
        member("b", controller, label=None),
        workload("Deployment", "web", "apps/v1", **{"walras.dev/work": "3"}),
        known={"web-7d9": above},
    )
    assert specs(decide(before))["web"]["work"] == "3"


@pytest.mark.parametrize("label", ["false"])
def test_who_says_no_takes_no_part(label: str) -> None:
    controller = owner("Job", "train")
    before = seen(member("p", controller, label=label), workload("Job", "train"))
    assert decide(before).jobs == ()


def test_invalid_annotations_are_left_out_and_named() -> None:
    settings = {"work": "much", "max-cores": "-1", "program": "UPPER", "min-cores": "2"}
    before = seen(member("p", owner("Job", "train"), settings=settings))
    decision = decide(before)
    spec = specs(decision)["train"]
    assert {"work", "maxCores", "program"}.isdisjoint(spec)
    assert spec["minCores"] == 2
    again = decide(outcome(before, decision))
    state, _, message = condition(again, "MarketJob", "train", "lab", type_="AnnotationsValid")
    assert state == "False"
    for name in ("work", "max-cores", "program"):
        assert f"annotation walras.dev/{name}: " in message


@pytest.mark.parametrize(
    ("labels", "entitlements", "wanted"),
    [
        ({"walras.dev/entitlement": "speech"}, ("vision", "speech"), "speech"),
        ({}, ("vision",), "vision"),
        ({}, ("vision", "speech"), "lab"),
        ({}, (), "lab"),
    ],
    ids=["named by the namespace", "the only one", "several", "none"],
)
def test_the_namespace_says_which_entitlement(
    labels: dict[str, str], entitlements: tuple[str, ...], wanted: str
) -> None:
    before = world(
        market(),
        node(),
        *map(entitlement, entitlements),
        namespace(**labels),
        member("p"),
    )
    assert specs(decide(before))["p"]["entitlement"] == wanted


def test_without_an_entitlement_the_job_says_what_to_do() -> None:
    before = world(market(), node(), namespace(), member("p"))
    again = decide(outcome(before, decide(before)))
    state, _, message = condition(again, "MarketJob", "p", "lab")
    assert (state, "entitlement lab does not exist; create it" in message) == ("False", True)


def test_a_hand_written_job_replaces_the_automatic_one() -> None:
    before = seen(member("p", owner("Job", "train"), labels={"app": "mine"}))
    after = outcome(before, decide(before))
    mine = job("mine", selector={"matchLabels": {"app": "mine"}})
    (written,) = world(mine).objects.jobs
    both = replace(after, objects=replace(after.objects, jobs=[*after.objects.jobs, written]))
    (write,) = decide(both).jobs
    assert (write.object.name, write.document) == ("train", None)
    alone = replace(after, objects=replace(after.objects, jobs=[written]))
    assert decide(alone).jobs == ()


def test_a_job_whose_pods_are_gone_stays_until_its_workload_goes() -> None:
    """It keeps the runs, and Kubernetes deletes it with the workload that owns it."""
    before = seen(member("p", owner("Job", "train")))
    after = outcome(before, decide(before))
    ended = replace(after, objects=replace(after.objects, pods=[]))
    assert decide(ended).jobs == ()


def test_a_job_whose_pods_lost_their_label_is_deleted() -> None:
    controller = owner("Job", "train")
    before = seen(member("p", controller))
    after = outcome(before, decide(before))
    (bare,) = seen(member("p", controller, label=None)).objects.pods
    (write,) = decide(replace(after, objects=replace(after.objects, pods=[bare]))).jobs
    assert (write.object.name, write.document) == ("train", None)


def test_nothing_is_deleted_while_an_owner_is_not_looked_up() -> None:
    before = seen(member("p", owner("Job", "train")))
    after = outcome(before, decide(before))
    unread = replace(after, objects=replace(after.objects, controllers={}))
    assert decide(unread).jobs == ()


def test_a_changed_annotation_changes_the_job() -> None:
    controller = owner("Job", "train")
    before = seen(member("p", controller, creationTimestamp="2026-01-01T00:00:00Z"))
    after = outcome(before, decide(before))
    newer = member(
        "q", controller, settings={"work": "2"}, creationTimestamp="2026-01-02T00:00:00Z"
    )
    (found,) = seen(newer).objects.pods
    pods: list[Pod] = [*after.objects.pods, found]
    (write,) = decide(replace(after, objects=replace(after.objects, pods=pods))).jobs
    assert write.object.uid
    assert write.document is not None
    assert write.document["spec"]["work"] == "2"


def test_two_workloads_of_one_name_have_a_job_each() -> None:
    before = seen(
        member("a", owner("Job", "train")),
        member("b", owner("StatefulSet", "train", "apps/v1")),
        member("c", owner("Job", "other")),
        job("other", selector={"matchLabels": {"app": "elsewhere"}}),
    )
    found = {name: spec["targetRef"]["kind"] for name, spec in specs(decide(before)).items()}
    assert found == {"train": "Job", "train-statefulset": "StatefulSet", "other-job": "Job"}


def with_rules(before: World, create: str) -> World:
    (rules,) = world(market(jobs={"create": create})).markets
    return replace(before, markets=[rules])


def test_all_workloads_of_entitled_namespaces_take_part_if_the_market_says_so() -> None:
    before = seen(
        namespace(),
        member("a", owner("Job", "train"), label=None),
        member("b", owner("DaemonSet", "logs", "apps/v1"), label=None),
        member("c", owner("Job", "not-me"), label="false"),
        member("d", owner("Job", "elsewhere"), label=None, namespace="other"),
    )
    assert decide(before).jobs == ()
    assert set(specs(decide(with_rules(before, "Entitled")))) == {"train"}


def test_no_job_is_made_where_the_market_says_never() -> None:
    before = seen(member("a", owner("Job", "train")))
    assert decide(with_rules(before, "Never")).jobs == ()
    after = with_rules(outcome(before, decide(before)), "Never")
    (write,) = decide(after).jobs
    assert write.document is None


def test_a_forged_owner_makes_no_job() -> None:
    forged = owner("Job", "../../../secrets", "batch/v1")
    before = seen(member("p", forged))
    assert workload_jobs(before, before.markets[0].spec).writes == ()


def test_owners_are_looked_up_only_where_it_matters() -> None:
    controller = owner("ReplicaSet", "web-7d9", "apps/v1")
    plain = world(member("a", controller, label=None), member("b", owner("Farm", "f", "x.org/v1")))
    assert unread_owners(plain.objects, {}, every_namespace=False) == set()
    assert len(unread_owners(plain.objects, {}, every_namespace=True)) == 1
    marked = world(member("a", controller))
    (key,) = unread_owners(marked.objects, {}, every_namespace=False)
    assert key.owner.name == "web-7d9"
    far = job("ray", targetRef=target("ray.io/v1", "RayJob", "ray"))
    (key,) = unread_owners(
        world(far, member("a", controller, label=None)).objects, {}, every_namespace=False
    )
    assert key.owner.name == "web-7d9"


EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
SPARK = "sparkoperator.k8s.io/v1beta2"
MADE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "cronjob": ([owner("Job", "nightly-29"), owner("CronJob", "nightly")], "Job/nightly-29"),
    "deployment": (
        [owner("ReplicaSet", "serve-7d9", "apps/v1"), owner("Deployment", "serve", "apps/v1")],
        "Deployment/serve",
    ),
    "job": ([owner("Job", "train")], "Job/train"),
    "jobset": (
        [
            owner("Job", "pretrain-workers-1"),
            owner("JobSet", "pretrain", "jobset.x-k8s.io/v1alpha2"),
        ],
        "JobSet/pretrain",
    ),
    "mpijob": ([owner("MPIJob", "solve", "kubeflow.org/v2beta1")], "MPIJob/solve"),
    "pod": ([], "Pod/notebook"),
    "pytorchjob": ([owner("PyTorchJob", "bert", "kubeflow.org/v1")], "PyTorchJob/bert"),
    "rayjob": (
        [
            owner("RayCluster", "tune-raycluster-x7", "ray.io/v1"),
            owner("RayJob", "tune", "ray.io/v1"),
        ],
        "RayJob/tune",
    ),
    "sparkapplication": (
        [owner("Pod", "clean-driver", "v1"), owner("SparkApplication", "clean", SPARK)],
        "SparkApplication/clean",
    ),
    "statefulset": ([owner("StatefulSet", "store", "apps/v1")], "StatefulSet/store"),
    "workflow": ([owner("Workflow", "pipeline", "argoproj.io/v1alpha1")], "Workflow/pipeline"),
}
"""Owners of the pods that a framework's controller makes, the nearest first, and their job."""


def templates(document: Any) -> Iterator[Document]:
    """Yield everything in a document that has the label."""
    if isinstance(document, dict):
        if LABEL in (document.get("labels") or {}):
            yield document
        for each in document.values():
            yield from templates(each)
    elif isinstance(document, list):
        for each in document:
            yield from templates(each)


@pytest.mark.parametrize("framework", sorted(path.stem for path in EXAMPLES.iterdir()))
def test_every_framework_of_the_examples_has_jobs(framework: str) -> None:
    """Its pods are as its controller makes them: with the template's labels, and these owners."""
    document = yaml.safe_load((EXAMPLES / f"{framework}.yaml").read_text())
    chain, workload = MADE[framework]
    (template,) = templates(document)
    space = document["metadata"]["namespace"]
    name = document["metadata"]["name"]
    pods = [
        pod(
            name if framework == "pod" else f"{name}-{number}",
            namespace=space,
            labels=template["labels"],
            annotations=template.get("annotations", {}),
            ownerReferences=chain[:1],
        )
        for number in range(1 if framework == "pod" else 2)
    ]
    before = world(
        market(), node(), entitlement(space, namespaces=[space]), namespace(space), *pods
    )
    references = [OwnerReference.model_validate(each) for each in chain]
    controllers = {
        OwnerKey(space, reference): above
        for reference, above in zip(references, [*references[1:], None], strict=False)
    }
    before = replace(before, objects=replace(before.objects, controllers=controllers))
    decision = decide(before)
    (write,) = decision.jobs
    again = decide(outcome(before, decision))
    said = status(again, "MarketJob", write.object.name, space)
    assert said["workload"] == f"auto ({workload})"
    assert said["counts"]["granted"] == len(pods)
    assert not any(each["type"] == "AnnotationsValid" for each in said["conditions"])


def test_the_driver_of_an_application_is_found_among_the_pods() -> None:
    application = owner("SparkApplication", "clean", SPARK)
    driver = member("clean-driver", application, label=None)
    driver["metadata"]["uid"] = "uid-Pod-clean-driver"
    before = world(driver, member("exec-1", owner("Pod", "clean-driver", "v1")))
    wanted = unread_owners(before.objects, {}, every_namespace=False)
    ((key, controller),) = pods_controllers(before.objects, wanted).items()
    assert key.owner.name == "clean-driver"
    assert controller is not None
    assert controller.name == "clean"
    forged = world(member("exec-1", owner("Pod", "clean-driver", "v1", uid="another")), driver)
    wanted = unread_owners(forged.objects, {}, every_namespace=False)
    assert list(pods_controllers(forged.objects, wanted).values()) == [None]


def test_a_job_in_another_namespace_is_never_selected() -> None:
    before = seen(
        member("p", owner("Job", "train")), member("q", owner("Job", "train"), namespace="other")
    )
    names = sorted((each.object.namespace, each.object.name) for each in decide(before).jobs)
    assert names == [("lab", "train"), ("other", "train")]
    assert all(isinstance(each, MarketJob) for each in before.objects.jobs)


def calls_to_make_jobs(jobs: int) -> int:
    """Return the calls by which 20 workloads get MarketJobs beside a number of others' jobs."""
    others = (job(f"other-{number}", namespace="other") for number in range(jobs))
    pods = (member(f"p-{number}", owner("Job", f"new-{number}")) for number in range(20))
    there = seen(*others, *pods)
    rules = decide(there).rules
    assert rules is not None
    assert len(workload_jobs(there, rules).writes) == 20
    return calls_of(lambda: workload_jobs(there, rules))


def test_names_for_new_jobs_take_no_work_for_each_job_there_is() -> None:
    assert calls_to_make_jobs(300) < calls_to_make_jobs(0) + 10 * 300
