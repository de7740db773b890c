"""The Jupyter server of the browser tests: on loopback, everything under ui-tests/.jupyter.

`playwright.config.ts` names the port, and points Jupyter's folders there.
"""

import json
import os
import sys
from pathlib import Path

import jupyterlab

from jupyter_gkews.engines.gvisor import kernelspec

c = get_config()  # type: ignore[name-defined]  # noqa: F821

home = Path(os.environ["GKEWS_UI_HOME"])
work = home / "work"
work.mkdir(parents=True, exist_ok=True)

c.Application.log_level = "ERROR"
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = int(os.environ["GKEWS_UI_PORT"])
c.ServerApp.port_retries = 0
c.ServerApp.allow_root = True
c.ServerApp.root_dir = str(work)
c.ServerApp.open_browser = False
# Galata's requests carry no token; only this machine can reach the server.
c.IdentityProvider.token = ""
c.ServerApp.disable_check_xsrf = True
c.LabApp.expose_app_in_browser = True
c.LabServerApp.extra_labextensions_path = str(Path(jupyterlab.__file__).parent / "galata")
c.LabApp.workspaces_dir = str(home / "workspaces")
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"

# Nor does JupyterLab ask, over the page, whether it may fetch news.
notifications = (
    Path(os.environ["JUPYTER_CONFIG_DIR"])
    / "lab"
    / "user-settings"
    / "@jupyterlab"
    / "apputils-extension"
    / "notification.jupyterlab-settings"
)
notifications.parent.mkdir(parents=True, exist_ok=True)
notifications.write_text(json.dumps({"checkForUpdates": False, "fetchNews": "false"}))

# "Python 3 (pausable)", as `jupyter gkews install-kernel` does; its tests skip without runsc.
kernelspec.write(Path(os.environ["JUPYTER_DATA_DIR"]) / "kernels")

# A kernel of another language, with a real process behind it: it is listed, and Pause is
# disabled with the reason.
spec = Path(os.environ["JUPYTER_DATA_DIR"]) / "kernels" / "othershell"
spec.mkdir(parents=True, exist_ok=True)
(spec / "kernel.json").write_text(
    json.dumps(
        {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Other Shell",
            "language": "bash",
        }
    )
)
