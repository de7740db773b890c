"""Who asks, and may they: tokens, RBAC from the roles that are stored, access and rules reviews.

Reads roles and bindings from the store at each request, as they are then. Writes nothing there.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from .status import Json, Refused, bad_request, not_found
from .store import Store

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class User:
    name: str
    groups: tuple[str, ...]

    @property
    def master(self) -> bool:
        return "system:masters" in self.groups


@dataclass(frozen=True)
class Asked:
    """What a request wants, in RBAC's words. `resource` carries the subresource: `pods/status`."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass
class Token:
    user: User
    expires: float | None = None
    account: tuple[str, str] | None = None
    """(namespace, service account): the token is good while that is there."""
    bound: tuple[str, str] | None = None
    """(pod's name, pod's uid) in the account's namespace: the token dies with the pod."""


@dataclass
class Authority:
    store: Store
    tokens: dict[str, Token] = field(default_factory=dict)

    def new_token(self, user: User) -> str:
        """A token that does not expire, for a user of the test's own."""
        text = secrets.token_hex(16)
        self.tokens[text] = Token(user)
        return text

    def account_token(self, namespace: str, account: str, request: Json) -> Json:
        """What `serviceaccounts/token` answers; raises Refused (422) below ten minutes."""
        spec = request.get("spec") or {}
        seconds = spec.get("expirationSeconds") or 3600
        if seconds < 600:
            message = (
                f"spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration "
                "less than 10 minutes"
            )
            raise Refused(
                422, "Invalid", f'TokenRequest.authentication.k8s.io "" is invalid: {message}'
            )
        name = f"system:serviceaccount:{namespace}:{account}"
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        bound = spec.get("boundObjectRef")
        if bound:
            pod = self.store.get(("pods", namespace, bound["name"]))
            if pod is None:
                raise not_found("pods", bound["name"])
            if ((pod.get("spec") or {}).get("serviceAccountName") or "") != account:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{account}" to pod running with '
                    "different serviceaccount name."
                )
        about = {"namespace": namespace, "serviceaccount": {"name": account}}
        if bound:
            about["pod"] = {"name": bound["name"], "uid": bound.get("uid", "")}
        # in the shape of a JWT, as processes read from it who they are; it signs nothing
        claims = base64.urlsafe_b64encode(json.dumps({"kubernetes.io": about}).encode())
        text = f"e30.{claims.decode().rstrip('=')}.{secrets.token_urlsafe(24)}"
        self.tokens[text] = Token(
            User(name, groups),
            time.time() + seconds,
            (namespace, account),
            (bound["name"], bound.get("uid", "")) if bound else None,
        )
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": {**spec, "expirationSeconds": seconds},
            "status": {"token": text, "expirationTimestamp": until},
        }

    def who(self, header: str | None) -> User:
        """The user behind an `Authorization` header; raises Refused (401)."""
        token = self.tokens.get((header or "").removeprefix("Bearer ").strip())
        if token is None or not self._good(token):
            raise Refused(401, "Unauthorized", "Unauthorized")
        return token.user

    def _good(self, token: Token) -> bool:
        if token.expires is not None and token.expires < time.time():
            return False
        if token.account is None:
            return True
        namespace, account = token.account
        if self.store.get(("serviceaccounts", namespace, account)) is None:
            return False
        if token.bound is None:
            return True
        pod = self.store.get(("pods", namespace, token.bound[0]))
        return pod is not None and pod["metadata"]["uid"] == token.bound[1]

    def allows(self, user: User, asked: Asked) -> bool:
        """Whether any rule that is bound to the user covers it."""
        if user.master:
            return True
        return any(_covers(rule, asked) for rule in self._rules(user, asked.namespace))

    def require(self, user: User, asked: Asked) -> None:
        """Raise Refused (403) unless it is allowed."""
        if self.allows(user, asked):
            return
        resource = f"{asked.resource.split('/')[0]}{'.' + asked.group if asked.group else ''}"
        where = (
            f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
        )
        what = f'{resource} "{asked.name}"' if asked.name else resource
        raise Refused(
            403,
            "Forbidden",
            f'{what} is forbidden: User "{user.name}" cannot {asked.verb} resource '
            f'"{asked.resource}" in API group "{asked.group}"{where}',
            name=asked.name,
            group=asked.group,
            kind=asked.resource,
        )

    def review(self, user: User, body: Json) -> Json:
        """What SelfSubjectAccessReview answers."""
        about = (body.get("spec") or {}).get("resourceAttributes") or {}
        resource = about.get("resource", "")
        if about.get("subresource"):
            resource += "/" + about["subresource"]
        asked = Asked(
            about.get("verb", ""), about.get("group", ""), resource,
            about.get("namespace", ""), about.get("name", ""),
        )  # fmt: skip
        return {**body, "status": {"allowed": self.allows(user, asked)}}

    def rules_review(self, user: User, body: Json) -> Json:
        """What SelfSubjectRulesReview answers."""
        namespace = (body.get("spec") or {}).get("namespace", "")
        rules = list(self._rules(user, namespace))
        if user.master:
            rules.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        found = [
            {
                key: rule[key]
                for key in ("verbs", "apiGroups", "resources", "resourceNames")
                if key in rule
            }
            for rule in rules
            if rule.get("resources")
        ]
        status = {"resourceRules": found, "nonResourceRules": [], "incomplete": False}
        return {**body, "status": status}

    def _rules(self, user: User, namespace: str) -> Iterator[Json]:
        for binding in self.store.list(f"clusterrolebindings.{RBAC}", ""):
            if _bound(binding, user):
                yield from self._role(binding, "")
        if namespace:
            for binding in self.store.list(f"rolebindings.{RBAC}", namespace):
                if _bound(binding, user):
                    yield from self._role(binding, namespace)

    def _role(self, binding: Json, namespace: str) -> list[Json]:
        wanted = binding["roleRef"]
        if wanted["kind"] == "Role":
            role = self.store.get((f"roles.{RBAC}", namespace, wanted["name"]))
        else:
            role = self.store.get((f"clusterroles.{RBAC}", "", wanted["name"]))
        return (role or {}).get("rules") or []


def _bound(binding: Json, user: User) -> bool:
    for subject in binding.get("subjects") or []:
        if subject["kind"] == "Group" and subject["name"] in user.groups:
            return True
        if subject["kind"] == "User" and subject["name"] == user.name:
            return True
        account = f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
        if subject["kind"] == "ServiceAccount" and user.name == account:
            return True
    return False


def _covers(rule: Json, asked: Asked) -> bool:
    def has(key: str, value: str) -> bool:
        return "*" in rule.get(key, []) or value in rule.get(key, [])

    names = rule.get("resourceNames") or []
    subresource = asked.resource.partition("/")[2]
    resource = has("resources", asked.resource) or (
        bool(subresource) and f"*/{subresource}" in rule.get("resources", [])
    )
    named = not names or asked.name in names
    return has("verbs", asked.verb) and has("apiGroups", asked.group) and resource and named
