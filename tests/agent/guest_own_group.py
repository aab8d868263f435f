"""Run inside the guest by test_guest.py: an agent in a container that is not privileged, cgroup v2.

Its container is made as a runtime does: a group, a cgroup namespace whose root that is, and the
host's cgroups mounted beside the namespace's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path("/sys/fs/cgroup")
POD = TOP / "kubepods" / "besteffort" / "pod1"
OWN, OTHER = POD / "agent", POD / "other"

CONTAINER = """
set -e
echo $$ > {own}/cgroup.procs
exec unshare --cgroup --mount sh -e -c '
    mount --bind /sys/fs/cgroup {host}
    umount /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    exec {python} -c "$0"
' "$1"
"""

AGENT = """
import json, os, threading
from pathlib import Path
from walras_agent import procfs
from walras_agent.open_file_tree import OpenFileTree
from walras_agent.kubepods import Layout
from walras_agent.own_group import OwnGroup, find_unwritable_group
from walras_agent.tree import CgroupError, CgroupTree, CgroupFile

tree = CgroupTree.at(Path(os.environ["HOST"]))
own = find_unwritable_group(tree, Layout.find(tree, "/"))
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def masks():
    every = [os.sched_getaffinity(thread) for thread in procfs.threads(os.getpid())]
    return [sorted(cpus) for cpus in every]

said = {"own": own, "threads": len(masks())}
asked = CgroupFile("cpuset", own, "cpuset.cpus")
effective = asked._replace(file="cpuset.cpus.effective")
try:
    tree.write(asked, "1")
except CgroupError as error:
    said["refused"] = error.errno
groups = OwnGroup(OpenFileTree(tree.version, tree.mounts), own)
said["before"] = [groups.read(asked), groups.read(effective)]
groups.write(asked, "1")
said["held"] = [groups.read(asked), groups.read(effective), masks()]
groups.write(asked._replace(group=own.replace("agent", "other")), "0")
try:
    groups.write(asked, "7")
except CgroupError as error:
    said["not there"] = error.errno
groups.write(asked, "")
said["after"] = [groups.read(asked), groups.read(effective), masks()]
print(json.dumps(said))
"""


@pytest.fixture
def container() -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,nsdelegate", TOP], check=True)
    OWN.mkdir(parents=True)
    OTHER.mkdir()
    for group in (TOP, TOP / "kubepods", TOP / "kubepods/besteffort", POD):
        (group / "cgroup.subtree_control").write_text("+cpuset +cpu +memory")
    yield
    for group in (OWN, OTHER, POD, POD.parent, POD.parent.parent):
        group.rmdir()


@pytest.mark.usefixtures("container")
def test_an_agent_in_a_cgroup_namespace_keeps_itself_off_owned_cpus() -> None:
    host = (
        tempfile.mkdtemp()
    )  # tmp_path would close its parent to others, who have modules in there
    script = CONTAINER.format(own=OWN, host=host, python=sys.executable)
    done = subprocess.run(
        ["sh", "-c", script, "sh", AGENT],
        env=os.environ | {"HOST": host},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["own"] == "/kubepods/besteffort/pod1/agent"
    assert said["refused"] == 1, "the kernel let it write: this test proves nothing"
    assert said["before"] == ["", "0-1"]
    assert said["held"] == ["1", "1", [[1]] * said["threads"]]
    assert said["not there"] == 22
    assert said["after"] == ["", "0-1", [[0, 1]] * said["threads"]]
    assert (OTHER / "cpuset.cpus").read_text() == "0\n"
