"""Objects of libraries that people use in notebooks: setup in one process, check in another.

`needs`: what must be installed for a row.
"""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "h5py": {
        "needs": ["h5py"],
        "setup": """
import h5py, numpy, os
path = os.path.abspath('data.h5')
w = h5py.File(path, 'w')
w['group/x'] = numpy.arange(10.); w['group'].attrs['unit'] = 'm'
group, x, attrs = w['group'], w['group/x'], w['group'].attrs
r = h5py.File('other.h5', 'w'); r['y'] = [1, 2]; r.close()
r = h5py.File('other.h5', 'r'); y = r['y']
closed = h5py.File('closed.h5', 'w'); closed['z'] = 1; was = closed['z']; closed.close()
memory = h5py.File('nowhere', 'w', driver='core', backing_store=False); memory['m'] = 5""",
        "check": """
assert w and w['group/x'][3] == 3. and x[4] == 4. and group.attrs['unit'] == 'm'
x[0] = 7.; assert w['group/x'][0] == 7. and x.file == w and w.mode == 'r+'
assert r.mode == 'r' and list(y[:]) == [1, 2] and list(r['y'][:]) == [1, 2]
assert not closed and not was and os.path.getsize('closed.h5') > 0 and attrs['unit'] == 'm'
assert memory['m'][()] == 5 and memory.mode == 'r+'
w['more'] = 1; w.close(); assert not x
assert not any('changed' in row['reason'] for row in report.rebuilt_details)""",
    },
    "sqlalchemy": {
        "needs": ["sqlalchemy"],
        "setup": """
import sqlalchemy as sa, sqlalchemy.orm as orm
engine = sa.create_engine('sqlite:///people.db', pool_pre_ping=True, pool_size=7)
meta = sa.MetaData(); people = sa.Table('person', meta, sa.Column('name', sa.String))
meta.create_all(engine)
session = orm.Session(engine, autoflush=False)
session.execute(people.insert().values(name='Ada')); session.commit()
Session = orm.sessionmaker(engine); of_maker = Session()
query = sa.select(people).where(people.c.name == 'Ada')
connection = engine.connect(); count = sa.select(sa.func.count()).select_from(people)
memory = sa.create_engine('sqlite://')
with memory.begin() as each:
    each.execute(sa.text('create table t (a)')); each.execute(sa.text('insert into t values (5)'))
del each
remote = sa.create_engine('mssql+x://me:hunter2@db/x?token=abc') if False else None""",
        "check": """
assert session.execute(query).all() == [('Ada',)] and not session.autoflush
assert session.bind is engine and of_maker.bind is engine
with Session() as s: s.execute(people.insert().values(name='Bob')); s.commit()
with engine.connect() as c: assert c.execute(count).scalar() == 2
assert engine.pool.size() == 7 and engine.pool._pre_ping
with memory.begin() as c: assert c.execute(sa.text('select a from t')).scalar() == 5""",
        "lost": ["connection"],
    },
    "duckdb": {
        "needs": ["duckdb"],
        "setup": """
import duckdb, os
con = duckdb.connect('file.duckdb'); con.execute('create table t as select 42 as a')
con.execute('select 1 union all select 2 order by 1'); first = con.fetchone()
mem = duckdb.connect(); mem.execute('create table m as select 43 as a; create view v as from m')
rel = mem.sql('select a + 1 as b from m')
shut = duckdb.connect(); shut.close()""",
        "check": """
assert con.execute('select a from t').fetchone() == (42,)
con.execute('insert into t values (1)')
assert con.execute('select count(*) from t').fetchone() == (2,)
assert mem.execute('select a from v').fetchone() == (43,)
try: shut.execute('select 1'); assert False
except duckdb.ConnectionException: pass""",
        "lost": ["rel"],
    },
    "zarr": {
        "needs": ["zarr"],
        "setup": """
import zarr, numpy
z = zarr.open('z.zarr', mode='w', shape=(10,), dtype='f8'); z[:] = 3
g = zarr.open_group('g.zarr', mode='w'); g.create_array('a', data=numpy.arange(4))
inner = g['a']
m = zarr.zeros((3,)); m[1] = 5""",
        "check": """
assert z[2] == 3 and inner[3] == 3 and g['a'][1] == 1
z[0] = 9; assert zarr.open('z.zarr', mode='r')[0] == 9
assert m[1] == 5""",
    },
    "pillow": {
        "needs": ["PIL"],
        "setup": """
from PIL import Image
import io
Image.new('RGB', (8, 8), (1, 2, 3)).save('i.png'); Image.new('L', (4, 4), 9).save('j.jpg')
lazy = Image.open('i.png'); loaded = Image.open('j.jpg'); loaded.load()
made = Image.new('RGB', (2, 2)); made.info['x'] = 1
data = io.BytesIO(); made.save(data, 'PNG'); data.seek(0); mem = Image.open(data)
gone = Image.open('i.png'); pix = made.load()""",
        "check": """
assert lazy.size == (8, 8) and lazy.getpixel((0, 0)) == (1, 2, 3) and lazy.format == 'PNG'
assert loaded.getpixel((1, 1)) == 9 and made.info['x'] == 1
assert mem.getpixel((0, 0)) == (0, 0, 0)""",
        "lost": ["pix"],
    },
    "requests": {
        "needs": ["requests"],
        "setup": """
import requests
s = requests.Session(); s.headers['X-Mine'] = 'yes'; s.cookies.set('a', 'b'); s.verify = False
s.auth = None
r = requests.Request('GET', 'http://localhost/').prepare()""",
        "check": """
assert s.headers['X-Mine'] == 'yes' and s.cookies['a'] == 'b' and s.verify is False and s.adapters
assert r.url == 'http://localhost/'""",
    },
    "polars": {
        "needs": ["polars"],
        "setup": """
import polars as pl
df = pl.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', None]}); s = df['a']; again = df
lazy = df.lazy().filter(pl.col('a') > 1); expr = pl.col('a').sum()
cat = pl.Series('c', ['u', 'v', 'u'], dtype=pl.Categorical)""",
        "check": """
assert again is df and df['a'].to_list() == [1, 2, 3] and s.sum() == 6
assert lazy.collect().height == 2 and df.select(expr).item() == 6
assert cat.to_list() == ['u', 'v', 'u']""",
    },
    "arrow": {
        "needs": ["pyarrow"],
        "setup": """
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc, pyarrow.dataset as ds
t = pa.table({'a': list(range(1000))}); part = t.slice(10, 5)
pq.write_table(t, 't.parquet')
with pa.OSFile('t.arrow', 'wb') as f, pa.ipc.new_file(f, t.schema) as out: out.write(t)
del f, out
mm = pa.memory_map('t.arrow'); mapped = pa.ipc.open_file(mm).read_all()
pf = pq.ParquetFile('t.parquet'); d = ds.dataset('t.parquet')
buf = pa.py_buffer(b'abc' * 2000); sch = t.schema""",
        "check": """
assert part['a'].to_pylist() == [10, 11, 12, 13, 14] and mapped.equals(t) and sch == t.schema
assert d.count_rows() == 1000 and buf.to_pybytes()[:3] == b'abc'""",
        "lost": ["mm", "pf.reader"],
    },
    "estimators": {
        "needs": ["sklearn"],
        "setup": """
import numpy
from sklearn import ensemble, linear_model, pipeline, preprocessing
X = numpy.random.default_rng(0).normal(size=(60, 3)); y = (X[:, 0] > 0).astype(int)
pipe = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
pipe.fit(X, y); last = pipe.steps[-1][1]
forest = ensemble.RandomForestClassifier(5, random_state=0).fit(X, y)
was = [m.predict(X).tolist() for m in (pipe, forest)]""",
        "check": """
assert [m.predict(X).tolist() for m in (pipe, forest)] == was and pipe.steps[-1][1] is last""",
    },
    "boosters": {
        "needs": ["xgboost", "lightgbm"],
        "setup": """
import numpy, xgboost, lightgbm
X = numpy.random.default_rng(0).normal(size=(60, 3)); y = (X[:, 0] > 0).astype(int)
xb = xgboost.XGBClassifier(n_estimators=3).fit(X, y); dm = xgboost.DMatrix(X, y)
booster = xb.get_booster(); booster.set_attr(mine='1')
lb = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(X, y); ld = lightgbm.Dataset(X, y)
was = [m.predict(X).tolist() for m in (xb, lb)]""",
        "check": """
assert [m.predict(X).tolist() for m in (xb, lb)] == was and booster.attr('mine') == '1'""",
        "lost": ["dm.handle"],
    },
}
