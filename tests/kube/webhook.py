"""The addon's webhook as a real API server asks it: AdmissionReview over HTTPS, and a patch back.

The fake server asks the same hook in this process. Serves one hook on loopback; ends with `stop`.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .admin import Admin
from .certificates import make
from .fake.registry import Admission

Json = dict[str, Any]
CONFIGURATIONS = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Webhook:
    """Registers itself for Workspaces and pods of one namespace."""

    def __init__(
        self, admin: Admin, namespace: str, hook: Callable[[Admission], Json | None], folder: Path
    ) -> None:
        self._admin, self._name, self._hook = admin, f"webhook-{namespace}", hook
        made = make(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate, made.key)
        handler = type("Handler", (_Handler,), {"hook": staticmethod(self._review)})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._authority = base64.b64encode(made.certificate.read_bytes()).decode()
        self._namespace = namespace

    def start(self) -> Webhook:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        label = {"kubernetes.io/metadata.name": self._namespace}
        # that label is set by itself only from 1.21 on
        self._admin.merge("api/v1/namespaces", self._namespace, {"metadata": {"labels": label}})
        rules = [
            {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1beta1"], "operations": ["UPDATE"],
             "resources": ["workspaces"]},
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
             "resources": ["pods"]},
        ]  # fmt: skip
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        self._admin.create(
            CONFIGURATIONS,
            {
                "metadata": {"name": self._name},
                "webhooks": [
                    {
                        "name": "snapshot.gke.kubeflow.org",
                        "clientConfig": {"url": url, "caBundle": self._authority},
                        "rules": rules,
                        "namespaceSelector": {"matchLabels": label},
                        "failurePolicy": "Ignore",
                        "timeoutSeconds": 10,
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                    }
                ],
            },
        )
        return self

    def stop(self) -> None:
        self._admin.delete(CONFIGURATIONS, self._name)
        self._server.shutdown()
        self._server.server_close()

    def _review(self, request: Json) -> Json:
        old, new = request.get("oldObject"), request.get("object")
        group = request["resource"]["group"]
        plural = request["resource"]["resource"]
        changed = self._hook(
            Admission(
                request["operation"],
                f"{plural}.{group}" if group else plural,
                request.get("subResource", ""),
                request.get("namespace", ""),
                request.get("name", ""),
                request["userInfo"]["username"],
                old,
                json.loads(json.dumps(new)),
            )
        )
        answer: Json = {"uid": request["uid"], "allowed": True}
        steps = [
            {"op": "replace" if key in new else "add", "path": f"/{key}", "value": changed[key]}
            for key in ("metadata", "spec")
            if changed is not None and changed.get(key) != new.get(key)
        ]
        if steps:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = base64.b64encode(json.dumps(steps).encode()).decode()
        return answer


class _Handler(BaseHTTPRequestHandler):
    hook: Callable[[Json], Json]

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = type(self).hook(body["request"])
        data = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
