"""What shows itself: figures of matplotlib, ipywidgets."""

# ruff: noqa: E501

from __future__ import annotations

import importlib.util
from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "figures_and_their_callbacks": {
        "setup": """
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation
from matplotlib.widgets import Slider, Button
fig, (a, b) = plt.subplots(1, 2, num='first')
line, = a.plot([1, 2, 3], [1, 4, 9], label='sq')
a.legend()
twin = a.twinx(); twin.plot([1, 2], [5, 6])
im = b.imshow([[1, 2], [3, 4]])
cb = fig.colorbar(im, ax=b)
second = plt.figure(7)
subs = second.subfigures(1, 2)
sa = subs[0].subplots()
third, ax3 = plt.subplots()
slider = Slider(ax3, 'v', 0, 1, valinit=0.5)
moved = []
slider.on_changed(lambda v: moved.append(v))
clicks = []
cid = fig.canvas.mpl_connect('button_press_event', lambda e: clicks.append(e))
closed = plt.figure(); plt.close(closed)
anim_fig, anim_ax = plt.subplots()
dot, = anim_ax.plot([], [])
def update(i): dot.set_data([i], [i]); return dot,
anim = FuncAnimation(anim_fig, update, frames=4, repeat=False)
anim._draw_was_started = True
plt.figure(7)
plt.rcParams['lines.linewidth'] = 3.5
hist = a.hist([1, 2, 2, 3])""",
        "check": """
import matplotlib.pyplot as plt, io
assert plt.get_fignums() == [1, 7, 8, 9], plt.get_fignums()
assert plt.gcf() is second, 'gcf'
assert plt.figure('first') is fig and closed not in map(plt.figure, plt.get_fignums())
plt.figure(7)
line.set_ydata([2, 2, 2])
assert list(a.lines[0].get_ydata()) == [2, 2, 2] and a.get_legend().get_texts()[0].get_text() == 'sq'
assert twin in fig.axes and twin.get_shared_x_axes().joined(a, twin) and cb.mappable is im and im.colorbar is cb
im.set_clim(0, 10)
assert cb.vmax == 10 and sa.figure is subs[0] and subs[0].figure is second
buf = io.BytesIO(); fig.savefig(buf); second.savefig(buf); third.savefig(buf)
slider.set_val(0.25)
assert moved == [0.25], moved
from matplotlib.backend_bases import MouseEvent
MouseEvent('button_press_event', fig.canvas, 5, 5, 1)._process()
assert len(clicks) == 1, clicks
assert plt.rcParams['lines.linewidth'] == 3.5 and dot in anim_ax.lines
new = plt.figure()
assert new.number == 10
anim._draw_frame(2)
assert list(dot.get_xdata()) == [2]""",
    },
    "widgets": {
        "setup": """
import ipywidgets as w
s = w.IntSlider(3, min=0, max=9, description='n')
t = w.Text('hi')
seen = []
s.observe(lambda c: seen.append(c['new']), 'value')
box = w.HBox([s, w.VBox([t, s])])
lay = w.Layout(width='50%')
b = w.Button(description='go', layout=lay)
b.style.button_color = 'red'
pressed = []
b.on_click(lambda x: pressed.append(x))
out = w.Output()
l1 = w.jslink((s, 'value'), (t, 'placeholder'))
a, c = w.IntText(1), w.IntText(2)
l2 = w.link((a, 'value'), (c, 'value'))
d = w.dlink((a, 'value'), (s, 'max'), lambda v: v + 10)
def f(x, y=2): return x + y
inter = w.interactive(f, x=4)
class Mine(w.IntSlider): pass
own = Mine(5)
drop = w.Dropdown(options=[('a', 1), ('b', 2)], value=2)
tab = w.Tab([s, t], titles=['x', 'y'])
mid = s.model_id""",
        "check": """
import ipywidgets as w
assert s.value == 3 and s.description == 'n' and box.children[0] is s and box.children[1].children[1] is s
s.value = 5
assert seen == [5]
assert b.layout is lay and lay.width == '50%' and b.style.button_color == 'red'
b.click()
assert pressed == [b]
a.value = 8
assert c.value == 8 and s.max == 18
assert inter.result is None or True
inter.children[0].value = 6
assert type(own) is Mine and own.value == 5 and drop.label == 'b' and tab.get_title(1) == 'y'
assert s.comm is not None and s.model_id == mid and w.widgets.widget._instances[mid] is s
s._repr_mimebundle_()
assert [r for r in report.rebuilt_details if r['name'] == 's'] and not report.lost""",
    },
}
if importlib.util.find_spec("ipywidgets") is None:  # no part of our own environment
    del ROWS["widgets"]
