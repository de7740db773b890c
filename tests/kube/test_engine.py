"""The engine that a server in the pod of a workspace has: it finds, follows and pauses its own."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import wait_until

from jupyter_gkews.engines.base import UnsureError, WorkspaceEngine
from jupyter_gkews.engines.pod_account import InPod
from jupyter_gkews.engines.registry import workspace_engine
from jupyter_gkews.engines.workspaces.engine import WorkspacesEngine
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.preflight import Facts
from jupyter_gkews.errors import GkewsError
from jupyter_gkews.process_memory import HeldMemory

from .actors import Platform
from .actors.addon import ENABLED, STATE
from .clusters import in_pod
from .fake import FakeCluster


@pytest.fixture
def here(
    fake: FakeCluster, platform: Platform, observer: WorkspaceObserver, tmp_path: Path
) -> InPod:
    """What the pod of `ws` finds of itself, with the rights of the pilot."""
    observer.stop()
    pod = platform.pod()
    assert pod is not None
    rules = [
        {"apiGroups": ["kubeflow.org"], "resources": ["*"],
         "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "watch"]},
    ]  # fmt: skip
    platform.admin.grant("default", "default", rules)
    account = in_pod(fake, tmp_path / "mounted", platform.admin.account("default", "default", pod))
    account.environ["HOSTNAME"] = pod["metadata"]["name"]
    return account


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, with a loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    return run


@pytest.fixture
def engine(here: InPod) -> Iterator[WorkspacesEngine]:
    made = WorkspacesEngine(pod=here)
    yield made
    made.close()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gkews")]


async def pause(engine: WorkspacesEngine) -> dict[str, Any]:
    """Ask, and follow to the end."""
    return await engine.follow(await engine.ask(stateless=False, pod_uid=""))


@in_a_loop
async def test_it_asks_nobody_before_it_is_asked_and_leaves_nothing(
    here: InPod, fake: FakeCluster
) -> None:
    before = threads()

    def asked() -> list[object]:
        """The parties of the cluster ask all the time."""
        return [path for user, _, path in fake.requests if user != "admin"]

    nothing = asked()
    engine: WorkspaceEngine = WorkspacesEngine(pod=here)
    assert threads() == before
    assert asked() == nothing
    assert engine.seen() is None
    assert (await engine.state())["state"] == "running"
    seen = engine.seen()
    assert seen is not None
    assert (seen["state"], seen["trouble"]) == ("running", None)
    engine.close()
    for _ in range(200):
        if threads() == before:
            break
        await asyncio.sleep(0.05)
    assert threads() == before


def test_outside_of_a_pod_there_is_no_engine_and_a_pod_without_a_token_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> WorkspaceEngine | None:
        return workspace_engine("/", tmp_path, lambda: HeldMemory(0, 0), None)

    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (tmp_path / "token").touch()
    assert made() is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert made() is not None
    (tmp_path / "token").unlink()
    with pytest.raises(GkewsError, match="automountServiceAccountToken is off") as unknown:
        made()
    assert unknown.value.reason == "no_workspace"


@in_a_loop
async def test_a_cluster_that_is_away_is_no_workspace_and_no_crash(
    engine: WorkspacesEngine, fake: FakeCluster
) -> None:
    fake.stop()
    with pytest.raises(GkewsError, match="did not answer") as away:
        await engine.state()
    assert away.value.reason == "cluster_unreachable"
    fake.start()
    assert (await engine.state())["state"] == "running"


@in_a_loop
async def test_the_workspace_of_the_pod_is_paused(
    engine: WorkspacesEngine, platform: Platform
) -> None:
    assert (await engine.identity()).workspace == "ws"
    outlook = await engine.outlook()
    assert (outlook.name, outlook.refused, outlook.loses) == ("ws", None, None)
    assert (await pause(engine))["state"] == "paused"
    assert platform.pod() is None


@in_a_loop
async def test_an_outlook_is_sentences_with_what_to_do(here: InPod, platform: Platform) -> None:
    pending = {"status": {"pendingRestart": True}}
    platform.admin.merge(platform.workspaces, "ws", pending, "status")
    annotations = {"metadata": {"annotations": {ENABLED: "false"}}}
    platform.admin.merge(platform.workspaces, "ws", annotations)
    engine = WorkspacesEngine(pod=here, facts=lambda: Facts(vram=5, resident=5))
    outlook = await engine.outlook()
    failed = [one for one in outlook.checks if one["passed"] is False]
    assert [one["id"] for one in failed] == ["enabled", "pending_restart"]
    assert all(one["message"].endswith(".") and one["hint"] for one in failed)
    assert outlook.stateless is True
    assert outlook.loses is not None
    with pytest.raises(GkewsError) as refused:
        await pause(engine)
    assert refused.value.reason == outlook.loses.reason == "snapshot_unavailable"
    engine.close()


@in_a_loop
async def test_what_is_in_memory_is_not_measured_while_somebody_waits_for_the_pause(
    here: InPod, platform: Platform
) -> None:
    measured = []

    def facts() -> Facts:
        measured.append(1)
        return Facts(vram=len(measured), resident=5)

    engine = WorkspacesEngine(pod=here, facts=facts)
    assert (await engine.outlook(measured=False)).refused is None
    assert len(measured) == 1  # nothing was known
    await engine.outlook()
    assert len(measured) == 2
    await engine.outlook(measured=False)
    assert len(measured) == 2
    engine.woke_up()  # in another pod, perhaps on another machine
    await engine.outlook(measured=False)
    assert len(measured) == 3
    engine.close()


@in_a_loop
async def test_another_pod_than_the_one_that_was_judged_is_not_paused(
    engine: WorkspacesEngine, platform: Platform
) -> None:
    with pytest.raises(GkewsError) as refused:
        await engine.ask(stateless=False, pod_uid="of an earlier life")
    assert refused.value.reason == "cancelled"
    assert platform.get()["spec"]["paused"] is False


@in_a_loop
async def test_an_engine_that_is_closed_calls_off_no_pause(
    engine: WorkspacesEngine, platform: Platform
) -> None:
    platform.gke.outcome = "hang"
    asked = await engine.ask(stateless=False, pod_uid="")
    following = asyncio.create_task(engine.follow(asked))
    await asyncio.sleep(0)
    engine.close()
    with pytest.raises((UnsureError, asyncio.CancelledError)):
        await following

    def taken() -> bool:  # it may begin only now, of itself
        return platform.get()["metadata"]["annotations"].get(STATE) == "Checkpointing"

    wait_until(taken, "the snapshot is taken")


@in_a_loop
async def test_states_come_to_the_loop_and_a_pause_is_called_off(
    engine: WorkspacesEngine, platform: Platform
) -> None:
    told: list[dict[str, Any]] = []
    news = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(state: dict[str, Any]) -> None:
        assert asyncio.get_running_loop() is loop
        told.append(state)
        news.set()

    engine.subscribe(tell, loop)
    platform.gke.outcome = "hang"
    pausing = asyncio.create_task(pause(engine))
    await _until(news, lambda: any(state["state"] == "pausing" for state in told))
    assert "nothing was lost" in await engine.abort()
    with pytest.raises(GkewsError) as over:
        await pausing
    assert over.value.reason == "cancelled"


@in_a_loop
async def test_a_process_that_wakes_up_in_the_next_pod_goes_on_with_its_new_token(
    engine: WorkspacesEngine, here: InPod, platform: Platform, fake: FakeCluster
) -> None:
    paused = await pause(engine)
    assert paused["state"] == "paused"
    platform.admin.merge(platform.workspaces, "ws", {"spec": {"paused": False}})
    states = platform.admin.watch(platform.workspaces, timeoutSeconds=20)
    assert "Running" in (e["object"].get("status", {}).get("state") for e in states)
    states.close()
    pod = platform.pod()
    assert pod is not None
    old = (here.account / "token").read_text()
    fresh = platform.admin.account("default", "default", pod)
    (here.account / "token").write_text(fresh)
    fake.authority.tokens.pop(old)
    engine.woke_up()
    identity = await engine.identity()
    assert identity.pod_uid == pod["metadata"]["uid"]
    for _ in range(200):
        state = await engine.state()
        if state["state"] == "running" and state["provenance"]:
            break
        await asyncio.sleep(0.05)
    assert (state["state"], state["provenance"]) == ("running", "restored")


async def _until(news: asyncio.Event, enough: Callable[[], bool]) -> None:
    while not enough():
        news.clear()
        await asyncio.wait_for(news.wait(), 20)


@in_a_loop
async def test_two_who_ask_first_at_once_are_both_told_the_state(
    engine: WorkspacesEngine, fake: FakeCluster
) -> None:
    await engine.identity()
    fake.faults.add("slow", path="selfsubjectaccessreviews", seconds=0.2)
    found = await asyncio.gather(engine.state(), engine.state())
    assert [state["state"] for state in found] == ["running", "running"]
