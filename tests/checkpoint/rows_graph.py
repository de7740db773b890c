"""What a checkpoint must bring back: deep structures, sharing, identity. (setup, check)"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "deep_chains_of_every_kind": {
        "setup": """
import collections, dataclasses, functools, types, typing
N = 20000
class Slots:
    __slots__ = ('v', 'next', '__weakref__')
    def __init__(self, v, next): self.v, self.next = v, next
@dataclasses.dataclass
class Data:
    v: int
    next: typing.Any
    payload: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True)
class Frozen:
    v: int
    next: typing.Any
class Reduced:
    def __init__(self, v, next): self.v, self.next = v, next
    def __reduce__(self): return Reduced, (self.v, self.next)
class Stated:
    def __init__(self, v, next): self.v, self.next = v, next
    def __getstate__(self): return (self.v, self.next)
    def __setstate__(self, state): self.v, self.next = state
class Listed(list):
    @property
    def v(self): return self[0]
    @property
    def next(self): return self[1]
Named = collections.namedtuple('Named', 'v next')
def chain(make):
    node = None
    for v in range(N):
        node = make(v, node)
    return node
chains = [chain(make) for make in (Slots, Data, Frozen, Reduced, Stated, Named)]
chains.append(chain(lambda v, next: Listed((v, next))))
chains.append(chain(lambda v, next: types.SimpleNamespace(v=v, next=next)))
cons = chain(lambda v, next: (v, next))
dicts = chain(lambda v, next: {'v': v, 'next': next})
ordered = chain(lambda v, next: collections.OrderedDict(v=v, next=next))
deques = chain(lambda v, next: collections.deque((v, next)))
mixed = chain(lambda v, next: [{'next': (Slots(v, next),)}])
def wrap(inner):
    @functools.wraps(inner)
    def outer(): return inner
    return outer
wrapped = print
for _ in range(2000): wrapped = wrap(wrapped)
partials = functools.partial(max, 1)
for _ in range(2000): partials = functools.partial(max, partials)""",
        "check": """
def depth(node, next, v=lambda node: None):
    count = 0
    while node is not None:
        node, count = next(node), count + 1
    return count
for head in chains:
    assert depth(head, lambda node: node.next) == N and head.v == N - 1, type(head)
assert depth(cons, lambda node: node[1]) == N and cons[0] == N - 1
assert depth(dicts, lambda node: node['next']) == N
assert depth(ordered, lambda node: node['next']) == N and type(ordered).__name__ == 'OrderedDict'
assert depth(deques, lambda node: node[1]) == N
assert depth(mixed, lambda node: node[0]['next'][0].next) == N
count = 0
while wrapped is not print:
    assert wrapped.__wrapped__ is wrapped()
    wrapped, count = wrapped(), count + 1
assert count == 2000
count = 0
while partials.args != (1,):
    partials, count = partials.args[0], count + 1
assert count == 2000""",
    },
    "deep_loops": {
        "setup": """
class Node:
    def __init__(self, v): self.v, self.next, self.prev = v, None, None
first = last = Node(0)
for v in range(1, 20000):
    last.next = Node(v)
    last.next.prev = last
    last = last.next
last.next, first.prev = first, last
ring = []
inner = ring
for _ in range(20000):
    inner = [inner]
ring.append((inner,))
by_node = {}
node = first
while True:
    by_node[node] = node.v
    node = node.next
    if node is first: break
another = [first, last]
for _ in range(3000):
    another = [another]
thing = (i for i in 'ab')
around = thing
for _ in range(3000):
    around = {'in': around, 'first': first}""",
        "check": """
node, count = first, 0
while True:
    assert node.next.prev is node and by_node[node] == node.v
    node, count = node.next, count + 1
    if node is first: break
assert count == 20000 and first.prev is last
inner, count = ring[0][0], 0
while inner is not ring:
    inner, count = inner[0], count + 1
assert count == 20000
while len(another) == 1: another = another[0]
assert another[0] is first and another[1] is last
while type(around) is dict:
    assert around['first'] is first
    around = around['in']
assert around is thing""",
        "lost": [
            "thing",
            "around['in']['in']['in']['in']['in'] ... ['in']['in']['in']['in']['in']",
        ],
    },
    "many_deep_names": {
        "setup": """
shared = ['shared']
for i in range(30):
    value = [shared, i]
    for _ in range(1500): value = [value]
    globals()[f'deep{i}'] = value
after = shared""",
        "check": """
for i in range(30):
    value = globals()[f'deep{i}']
    while len(value) == 1: value = value[0]
    assert value[0] is shared and value[1] == i
assert after is shared""",
    },
    "objects_that_recurse_in_their_own_code": {
        "setup": """
class Tree:
    def __init__(self, child): self.child = child
    def __getstate__(self):
        def down(n): return n if n == 0 else down(n - 1)
        down(400)
        return {'child': self.child}
tree = None
for _ in range(1000): tree = Tree(tree)
class Endless:
    def __getstate__(self): return self.__getstate__()
endless = [Endless(), 1]""",
        "check": """
count = 0
while tree is not None: tree, count = tree.child, count + 1
assert count == 1000 and endless[1] == 1""",
        "lost": ["endless[0]"],
    },
    "views_of_arrays_of_objects": {
        "setup": """
import numpy as np
o=np.array([[1],'a',{},None,5,6],dtype=object)
v=o[1:4]; r=o.reshape(2,3); t=r.T; neg=o[::-1]
o0=np.array(None,dtype=object)
st=np.zeros(4,dtype=[('a','i4'),('o','O')])
sta=st['a']; sto=st['o']
shared=o[0]""",
        "check": """
v[0]='z'
assert o[1]=='z' and r[0,1]=='z' and t[1,0]=='z' and neg[-2]=='z' and shared is o[0]
sta[1]=7; assert st[1]['a']==7
sto[1]='q'; assert st[1]['o']=='q'""",
    },
    "views_of_every_kind": {
        "setup": """
import numpy as np
b=np.arange(24)
bo=b[3:9]
st=np.zeros(5,dtype=[('x','i4'),('y','f8')])
x=st['x']; y=st['y']
neg=b[::-2]; z=np.broadcast_to(b[2:3],(7,)); bc=np.broadcast_to(b.reshape(2,12)[:,:1],(2,5))
sl=np.lib.stride_tricks.sliding_window_view(b,4)
ma=np.ma.array(b,mask=b%2==0,copy=False)
mav=ma[2:5]
rec=np.rec.array(np.zeros(3,dtype=[('a','i4')]))
reca=rec.a
class Sub(np.ndarray):
    def __array_finalize__(self,o): self.info=getattr(o,'info',None)
sub=b.view(Sub); sub.info={'k':1}
info=sub.info
mat=np.asmatrix(np.ones((2,2))); matb=mat.base
im=np.zeros(3,complex); re=im.real
sc=b.view('u1')
empty=b[5:5]
fl=b.flat
ch=np.array(['ab','c']).view(np.ndarray)
it=np.nditer(b[:3])
zd=b[4:5].reshape(())""",
        "check": """
b[5]=99
assert bo[2]==99
x[1]=4; y[1]=2.5
assert st[1]['x']==4 and st[1]['y']==2.5
b[23]=-5; assert neg[0]==-5
b[2]=8; assert (z==8).all() and not z.flags.writeable
b[12]=3; assert (bc[1]==3).all()
assert sl[5,0]==99
b[3]=77; assert ma.data[3]==77, 'ma shares'
assert mav.data[1]==77, 'mav'
rec.a[0]=3; assert reca[0]==3
assert type(sub).__name__=='Sub' and sub[5]==99 and sub.info is info
im[0]=5+1j; assert re[0]==5
assert sc[40]==99
matb[0,0]=9; assert mat[0,0]==9
assert fl[5]==99, 'flat'
b[4]=55; assert zd==55""",
        "lost": ["it"],
    },
    "arrays_on_buffers_of_python": {
        "setup": """
import numpy as np, array, mmap
ba=bytearray(100); n1=np.frombuffer(ba,dtype='u1'); m1=memoryview(ba)[2:5]
by=bytes(range(50)); n2=np.frombuffer(by,'u1')
ar=array.array('d',[1,2,3]); n3=np.frombuffer(ar); m3=memoryview(ar)
n4=np.ndarray((4,),'i4',buffer=ba,offset=8)
mv=memoryview(bytearray(16)); n5=np.asarray(mv)
big=bytearray(5000); nbig=np.frombuffer(big,'u1')
bigarr=array.array('q',range(2000)); nb2=np.frombuffer(bigarr,'q')
npb=np.arange(10); mnp=memoryview(npb); mnp2=mnp[2:4]
strided=memoryview(ba)[::2]""",
        "check": """
ba[3]=7
assert n1[3]==7 and m1[1]==7, (n1[3],m1[1])
n1[4]=9; assert ba[4]==9
assert (n2==list(by)).all() and not n2.flags.writeable
ar[1]=9.; assert n3[1]==9. and m3[1]==9
ba[8]=1; assert n4[0]==1
mv[0]=3; assert n5[0]==3
big[7]=3; assert nbig[7]==3
bigarr[5]=-1; assert nb2[5]==-1
npb[2]=44; assert mnp[2]==44 and mnp2[0]==44
ba[6]=66; assert strided[3]==66
ba2=ar;""",
    },
    "what_pandas_shares": {
        "setup": """
import pandas as pd, numpy as np
df=pd.DataFrame({'a':np.arange(5),'b':np.arange(5.)*2,'c':np.arange(5)*3})
col=df['a']; view=df[['a','c']]; sub=df.iloc[1:3]; 
idx=df.index; cols=df.columns
arr=df['b'].to_numpy()
ro=arr.flags.writeable
s=pd.Series([1,2,3],name='x'); s2=s; sv=s.values
mi=pd.MultiIndex.from_product([[1,2],['a','b']])
dfm=pd.DataFrame({'v':range(4)},index=mi)
lvl=mi.levels[0]
g=df.groupby('a'); roll=df.rolling(2)
cat=pd.Categorical(['x','y']); ser=pd.Series(cat); 
sp=pd.arrays.SparseArray([0,0,1]); iv=pd.interval_range(0,3); per=pd.period_range('2020',periods=3,freq='M')
df.attrs['k']=[1]; att=df.attrs['k']
ob=pd.DataFrame({'o':[[1],{}, None]}); first=ob['o'][0]
ts=pd.Timestamp('2020',tz='UTC'); td=pd.Timedelta('1s'); na=pd.NA; nat=pd.NaT
class MyDF(pd.DataFrame):
    _metadata=['note']
    @property
    def _constructor(self): return MyDF
my=MyDF({'a':[1]}); my.note='hi'
big=pd.DataFrame(np.zeros((100000,3)),columns=list('abc')); bcol=big['b']""",
        "check": """
import pandas as pd, numpy as np
assert df.index is idx and df.columns is cols, 'index identity'
df.loc[0,'a']=100
assert col[0]==0, 'CoW col unchanged'
assert sub.index.tolist()==[1,2]
assert sv.tolist()==[1,2,3] and s2 is s
assert mi.levels[0] is lvl and dfm.index is mi
assert g.sum().shape==(5,2), g.sum().shape
assert roll.sum().shape==(5,3)
assert df.attrs['k'] is att and ob['o'][0] is first
assert na is pd.NA and nat is pd.NaT and ts.tz is not None
assert type(my) is MyDF and my.note=='hi' and type(my[['a']]) is MyDF
big.iloc[0,1]=5; assert bcol[0]==0
assert arr.flags.writeable==ro, 'arr flags'
assert list(ser)==['x','y'] and len(per)==3 and len(iv)==3 and sp.sum()==1""",
    },
    "arrow_and_slices": {
        "setup": """
import pyarrow as pa
tb=pa.table({'a':list(range(10000)),'s':[str(i) for i in range(10000)]}); sl=tb.slice(10,5); col=tb['a']
ar=pa.array([1,2,None]); buf=pa.py_buffer(b'abc'); sch=tb.schema; rb=tb.to_batches()[0]
import numpy as np
n=np.arange(5000); an=pa.array(n)
import pandas as pd
ds=pd.Series(['a','bb']*3000)""",
        "check": """
import pyarrow as pa
assert tb.num_rows==10000 and sl['a'][0].as_py()==10 and col.equals(tb['a']) and ar[2].as_py() is None
assert sl.equals(tb.slice(10,5)) and buf.to_pybytes()==b'abc' and sch.equals(tb.schema) and rb.num_rows==10000 and an[3].as_py()==3
assert ds[1]=='bb'""",
    },
}
