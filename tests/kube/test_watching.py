"""A watch loses nothing when the server ends it, forgets, resets, is silent, away or forbids."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from live_server import wait_until

from jupyter_gkews.engines.cluster import cluster as cluster_module
from jupyter_gkews.engines.cluster.cluster import Cluster
from jupyter_gkews.engines.cluster.problems import ClusterError
from jupyter_gkews.engines.cluster.watching import ObjectWatch, Pace
from jupyter_gkews.engines.cluster.words import PODS, WORKSPACES
from jupyter_gkews.engines.workspaces.observing import WorkspaceObserver
from jupyter_gkews.engines.workspaces.state import WorkspaceState

from .actors import Platform
from .admin import Admin
from .clusters import admin_of, in_pod
from .conftest import QUICK
from .fake import FakeCluster
from .objects import at, made, workspace

Json = dict[str, Any]


class Followed:
    """What a watch has told, and waiting for it."""

    def __init__(self, cluster: Cluster, namespace: str = "default", **about: Any) -> None:
        self.objects: dict[str, Json] = {}
        self.told = 0
        self.troubles: list[ClusterError | None] = []
        self._changed = threading.Condition()
        self.watch = ObjectWatch(
            cluster, WORKSPACES, namespace, self._change,
            troubled=self._trouble, listed=self._notify, **{"pace": QUICK, **about},
        )  # fmt: skip

    def _change(self, name: str, found: Json | None) -> None:
        with self._changed:
            self.told += 1
            if found is None:
                self.objects.pop(name, None)
            else:
                self.objects[name] = found
            self._changed.notify_all()

    def _trouble(self, error: ClusterError | None) -> None:
        with self._changed:
            self.troubles.append(error)
            self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, enough: Callable[[], bool], seconds: float = 60.0) -> bool:
        end = time.monotonic() + seconds
        with self._changed:
            while not enough():
                if time.monotonic() > end:
                    return False
                self._changed.wait(0.05)  # not all that is waited for is told by the watch
        return True


@pytest.fixture
def follow(asked: Cluster) -> Iterator[Callable[..., Followed]]:
    started: list[Followed] = []

    def begin(client: Cluster | None = None, **about: Any) -> Followed:
        followed = Followed(client or asked, **about)
        followed.watch.start()
        started.append(followed)
        return followed

    yield begin
    for followed in started:
        followed.watch.stop()
        assert followed.watch.join(60)


@pytest.fixture
def admin(fake: FakeCluster) -> Admin:
    return admin_of(fake)


def pause(admin: Admin, name: str = "ws", paused: bool = True) -> None:
    admin.merge(at("default"), name, {"spec": {"paused": paused}})


def is_paused(followed: Followed, name: str = "ws") -> Callable[[], bool]:
    return lambda: followed.objects.get(name, {}).get("spec", {}).get("paused") is True


def test_changes_come_in_without_a_second_list(
    follow: Callable[..., Followed], admin: Admin
) -> None:
    made(admin, "default")
    followed = follow()
    assert followed.until(lambda: "ws" in followed.objects)
    pause(admin)
    assert followed.until(is_paused(followed))
    admin.delete(at("default"), "ws")
    assert followed.until(lambda: not followed.objects)
    assert followed.watch.lists == 1
    assert followed.watch.trouble is None


def test_a_watch_that_the_server_ends_goes_on_where_it_was(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    followed = follow(seconds=1)
    assert followed.until(lambda: "ws" in followed.objects)

    def begun() -> int:
        return len([path for _, _, path in fake.requests if "watch=" in path])

    before = begun()
    assert wait_until(lambda: begun() > before, "another watch begins")
    pause(admin)
    assert followed.until(is_paused(followed))
    assert followed.watch.lists == 1
    assert followed.told == 2


def test_a_reset_connection_is_made_again_and_nothing_is_missed(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    followed = follow()
    assert followed.until(lambda: "ws" in followed.objects)
    for round_ in range(5):
        fake.cut_connections()
        pause(admin, paused=round_ % 2 == 0)
    assert followed.until(is_paused(followed))
    assert followed.watch.lists == 1


def test_what_the_server_has_forgotten_is_listed_again(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    made(admin, "default", "other")
    followed = follow()
    assert followed.until(lambda: len(followed.objects) == 2)
    watches = fake.faults.add("reset", path="watch=")
    fake.cut_connections()
    assert followed.until(lambda: watches.met > 0)
    pause(admin)
    admin.delete(at("default"), "other")
    fake.store.compact()
    fake.faults.lift(watches)
    assert followed.until(lambda: is_paused(followed)() and set(followed.objects) == {"ws"})
    assert followed.watch.lists == 2


def test_the_server_may_be_away(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    followed = follow()
    assert followed.until(lambda: "ws" in followed.objects)
    fake.stop()
    assert followed.until(lambda: bool(followed.troubles) and followed.troubles[-1] is not None)
    trouble = followed.watch.trouble
    assert trouble is not None
    assert trouble.unreachable
    fake.start()
    pause(admin)
    assert followed.until(is_paused(followed))
    assert followed.watch.trouble is None
    assert followed.troubles[-1] is None


def test_a_watch_that_is_ended_at_once_does_not_hammer_the_server(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    refused = fake.faults.add("end_watch", path="watch=")
    followed = follow()
    assert followed.until(lambda: followed.watch.trouble is not None)
    before = refused.met
    followed.until(lambda: False, 1.0)
    assert refused.met - before <= 20  # with the quick pauses of these tests, 0.1 to 0.2 s each
    fake.faults.lift(refused)
    pause(admin)
    assert followed.until(is_paused(followed))
    assert followed.watch.lists == 1


def test_a_silent_connection_is_given_up(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(cluster_module, "WATCH_TIMEOUT", (1.0, 0.5))
    made(admin, "default")
    hole = fake.faults.add("black_hole", path="watch=", times=1)
    followed = follow()
    assert followed.until(lambda: hole.met == 1)
    pause(admin)
    assert followed.until(is_paused(followed))


def test_a_right_that_is_granted_later_is_found(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster, tmp_path: Path
) -> None:
    made(admin, "default")
    token = admin.account("default", "ws")
    client = Cluster(in_pod(fake, tmp_path / "ws", token))
    followed = follow(client)
    assert followed.until(lambda: bool(followed.troubles))
    assert followed.watch.trouble is not None
    assert followed.watch.trouble.forbidden
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "verbs": ["list", "watch"]}
    admin.grant("default", "ws", [rule])
    assert followed.until(lambda: "ws" in followed.objects)
    client.close()


def test_a_token_that_was_changed_is_read_again(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster, tmp_path: Path
) -> None:
    made(admin, "default")
    first, second = admin.account("default", "ws"), admin.account("default", "ws")
    rule = {"apiGroups": ["kubeflow.org"], "resources": ["workspaces"], "verbs": ["list", "watch"]}
    admin.grant("default", "ws", [rule])
    client = Cluster(in_pod(fake, tmp_path / "ws", first))
    followed = follow(client)
    assert followed.until(lambda: "ws" in followed.objects)
    (tmp_path / "ws" / "token").write_text(second)
    del fake.authority.tokens[first]
    fake.cut_connections()
    pause(admin)
    assert followed.until(is_paused(followed))
    assert followed.watch.trouble is None
    client.close()


def test_a_watch_stops_while_the_server_is_silent(asked: Cluster, fake: FakeCluster) -> None:
    followed = Followed(asked)
    followed.watch.start()
    assert followed.until(lambda: followed.watch.lists == 1)
    followed.watch.stop()
    assert followed.watch.join(60)


def test_a_thousand_workspaces_lose_no_event(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    registry = fake.registry
    resource = registry.resource("kubeflow.org", "v1beta1", "workspaces")
    followed = follow()
    assert followed.until(lambda: followed.watch.lists == 1)
    names = [f"w{index}" for index in range(1000)]
    for name in names:
        registry.create(resource, "default", workspace(name), "admin")
    for index, name in enumerate(names):
        if index % 250 == 0:
            fake.cut_connections()
        patch = {"spec": {"paused": True}}
        registry.patch(resource, "default", name, "", "application/merge-patch+json", patch, "a")
    assert followed.until(
        lambda: (
            len(followed.objects) == 1000
            and all(found["spec"]["paused"] for found in followed.objects.values())
        )
    )


def watches_begun(fake: FakeCluster) -> int:
    return len([path for _, _, path in fake.requests if "watch=" in path])


def test_a_watch_that_has_told_something_was_not_ended_at_once(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    ended = threading.Event()

    def change() -> None:
        count = 0
        while not ended.wait(0.05):
            count += 1
            note = {"metadata": {"annotations": {"example.com/count": str(count)}}}
            admin.merge(at("default"), "ws", note)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        followed = follow(seconds=2, pace=Pace(first=60.0, longest=60.0))
        for _ in range(200):
            if watches_begun(fake) > 2 or followed.troubles:
                break
            followed.until(lambda: bool(followed.troubles), 0.1)
    finally:
        ended.set()
        changing.join()
    assert not followed.troubles
    assert watches_begun(fake) >= 3


def test_a_watch_that_is_broken_off_while_it_begins_begins_anew(
    follow: Callable[..., Followed], admin: Admin, fake: FakeCluster
) -> None:
    made(admin, "default")
    slow = fake.faults.add("slow", path="watch=", seconds=0.5, times=1)
    followed = follow()
    for _ in range(100):
        if slow.met:
            break
        followed.until(lambda: slow.met > 0, 0.05)
    followed.watch.restart()
    for _ in range(100):
        if watches_begun(fake) > 1:
            break
        followed.until(lambda: watches_begun(fake) > 1, 0.1)
    assert watches_begun(fake) == 2
    pause(admin)
    assert followed.until(is_paused(followed))


def test_nothing_is_told_of_a_workspace_before_it_was_looked_for(
    asked: Cluster, platform: Platform, fake: FakeCluster
) -> None:
    platform.create()
    slow = fake.faults.add("slow", path=r"/workspaces\?", seconds=0.5, times=1)
    told: list[WorkspaceState] = []
    observer = WorkspaceObserver(asked, "default", "ws", pace=QUICK)
    observer.subscribe(told.append)
    observer.start()
    assert observer.wait(lambda seen, _: seen.workspace is not None and seen.pod_ready, 20)
    assert slow.met == 1
    assert told
    assert {state.reason for state in told} == {None}
    observer.stop()
    nowhere = WorkspaceObserver(asked, "default", "nowhere", pace=QUICK)
    news = threading.Event()
    found: list[WorkspaceState] = []

    def tell(state: WorkspaceState) -> None:
        found.append(state)
        news.set()

    nowhere.subscribe(tell)
    nowhere.start()
    assert news.wait(20)
    assert found[0].reason == "no_workspace"
    nowhere.stop()


def connections_to(fake: FakeCluster) -> list[object]:
    """Those that this process has made and not closed, however the server has ended them."""
    port = int(fake.url.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return [one for one in found if one.raddr and one.raddr.port == port]


def test_an_error_of_who_is_told_leaves_no_connection(
    fake: FakeCluster, admin: Admin, tmp_path: Path
) -> None:
    client = Cluster(in_pod(fake, tmp_path / "account", fake.admin_token))
    kept: list[ClusterError] = []  # with their tracebacks, as what has failed is kept to be shown

    def changed(name: str, found: Json | None) -> None:
        kept.append(ClusterError(0, "", f"{name} is not wanted", "hear of it"))
        raise kept[-1]

    watch = ObjectWatch(client, WORKSPACES, "default", changed, pace=QUICK).start()
    wait_until(lambda: watch.lists == 1, "it is followed")
    made(admin, "default")
    wait_until(lambda: kept, "it was told")
    watch.stop()
    assert watch.join(60)
    client.close()
    assert not connections_to(fake)


def test_a_client_that_is_closed_in_the_middle_of_requests_leaves_no_connection(
    fake: FakeCluster, tmp_path: Path
) -> None:
    account = in_pod(fake, tmp_path / "account", fake.admin_token)

    def ask(client: Cluster, asked: threading.Event) -> None:
        while True:
            try:
                client.list(PODS, "default")
            except ClusterError:
                return
            asked.set()

    for _ in range(10):
        client = Cluster(account)
        begun = [threading.Event() for _ in range(4)]
        asking = [threading.Thread(target=ask, args=(client, each)) for each in begun]
        for thread in asking:
            thread.start()
        assert all(each.wait(20) for each in begun)
        client.close()
        for thread in asking:
            thread.join(20)
            assert not thread.is_alive()
        assert not connections_to(fake)
