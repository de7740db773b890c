"""What a checkpoint must bring back: deep structures, sharing, identity. (setup, check)"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "arrays_that_repeat_their_memory": {
        "setup": """
import numpy as np
huge = np.broadcast_to(np.float64(2), (10 ** 5, 10 ** 5)); rows = np.broadcast_to(np.arange(3), (4, 3))
windows = np.lib.stride_tricks.sliding_window_view(np.arange(6), 3)""",
        "check": """
assert huge.strides == (0, 0) and huge[5, 7] == 2 and rows.strides == (0, 8) and rows[3, 2] == 2
assert windows.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]] and windows.strides == (8, 8)""",
    },
    "objects_that_answer_for_every_attribute": {
        "setup": """
class Answers:
    def __init__(self): self.real = 5
    def __getattr__(self, name): return name.upper()
class Forwards:
    def __init__(self, to): self.to = to
    def __getattr__(self, name): return getattr(self.to, name)
a = Answers(); f = Forwards([1]); both = {'a': a}""",
        "check": """
assert a.real == 5 and a.other == 'OTHER' and both['a'] is a and f.to == [1] and f.count(1) == 1""",
    },
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
assert mi.levels[0].equals(lvl) and dfm.index.equals(mi)
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
    "classes_of_every_kind": {
        "setup": """
import abc, enum, typing, dataclasses, functools, collections
class Reg:
    all={}
    def __init_subclass__(cls,tag=None,**k): super().__init_subclass__(**k); Reg.all[tag]=cls
class A(Reg,tag='a'):
    def who(self): return __class__
    def sup(self): return super().__repr__()
class Desc:
    def __set_name__(self,o,n): self.n=n; names.append(n)
    def __get__(self,i,o=None): return self if i is None else i.__dict__.get(self.n,0)
    def __set__(self,i,v): i.__dict__[self.n]=v
names=[]
class B:
    x=Desc(); y=Desc()
    z=property(lambda s:s.x+1,doc='zz')
    @functools.cached_property
    def big(self): calls.append(1); return [1]
    @classmethod
    def c(cls): return cls
    @staticmethod
    def s(): return 5
    pm=functools.partialmethod(lambda self,a,b:(a,b),1)
calls=[]
b=B(); b.x=4; bigv=b.big
bm=b.c; bs=B.s; bmm=b.pm
class Proto(typing.Protocol):
    def f(self)->int: ...
@typing.runtime_checkable
class RP(typing.Protocol):
    def g(self): ...
class G1:
    def g(self): pass
TD=typing.TypedDict('TD',{'a':int})
class TD2(typing.TypedDict,total=False):
    k: str
UserId=typing.NewType('UserId',int)
T=typing.TypeVar('T',bound=int); PS=typing.ParamSpec('PS')
class Gen(typing.Generic[T]): pass
class GP(typing.Generic[PS]): pass
gi=Gen[int]
class E(enum.Enum):
    A=1; B=2; ALIAS=1
    @classmethod
    def d(cls): return cls.A
F=enum.Flag('F','X Y Z'); fx=F.X|F.Z
IE=enum.IntEnum('IE','P Q'); SE=enum.Enum('SE',{'a':'x'},type=str)
Auto=enum.Enum('Auto',['U','V'])
class St(str,enum.Enum): M='m'
NT=collections.namedtuple('NT','a b',defaults=[3]); nt=NT(1)
@dataclasses.dataclass(frozen=True)
class FD: a:int; b:list=dataclasses.field(default_factory=list,compare=False)
@dataclasses.dataclass(slots=True,kw_only=True)
class SD: a:int=3; b:str='q'
fd=FD(1); sd=SD(a=9); sdset={fd}
class AB(abc.ABC):
    @property
    @abc.abstractmethod
    def p(self): ...
AB.register(list)
@AB.register
class Vir: pass
class Meta(abc.ABCMeta):
    def __call__(cls,*a,**k):
        if cls not in insts: insts[cls]=super().__call__(*a,**k)
        return insts[cls]
insts={}
class Single(metaclass=Meta): pass
one=Single()
class Sl:
    __slots__=('a','__weakref__')
class Sl2(Sl):
    __slots__=('b',)
sl=Sl2(); sl.a=1; sl.b=sl
import weakref; wsl=weakref.ref(sl)""",
        "check": """
import typing, enum, weakref
assert Reg.all=={'a':A} and A().who() is A and 'A object' in A().sup()
class A2(Reg,tag='b'): pass
assert Reg.all['b'] is A2
assert names==['x','y'] and b.x==4 and b.y==0 and b.z==5 and B.z.__doc__=='zz' and b.big is bigv and calls==[1]
B().big; assert calls==[1,1]
assert bm() is B and bs()==5 and b.pm(2)==(1,2) and bmm(3)==(1,3)
assert isinstance(G1(),RP) and Proto._is_protocol and not isinstance(3,RP)
assert TD.__annotations__=={'a':int} or TD.__annotations__ and TD(a=1)=={'a':1}; assert TD2.__total__ is False and TD2.__optional_keys__=={'k'}
assert UserId(3)==3 and UserId.__supertype__ is int
assert gi.__origin__ is Gen and gi.__args__==(int,) and Gen.__parameters__==(T,) and Gen[int]==gi and GP.__parameters__==(PS,)
assert E.ALIAS is E.A and list(E)==[E.A,E.B] and E['ALIAS'] is E.A and E.d() is E.A
assert fx==F.X|F.Z and F(5) is fx or F(5)==fx; assert F.Y not in fx and (fx&F.X) is F.X
assert IE.P==1 and SE.a=='x' and Auto(2) is Auto.V and St('m') is St.M
assert nt==NT(1,3) and NT._field_defaults=={'b':3}
assert fd in sdset and FD(1)==fd and sd==SD(a=9) and not hasattr(sd,'__dict__')
try: fd.a=2; raise SystemExit
except Exception as e: assert type(e).__name__=='FrozenInstanceError'
assert isinstance([],AB) and isinstance(Vir(),AB)
try: AB(); raise SystemExit
except TypeError: pass
assert Single() is one and insts=={Single:one}
assert sl.b is sl and wsl() is sl and sl.a==1""",
    },
    "functions_and_their_helpers": {
        "setup": """
import functools
@functools.singledispatch
def sd(x): return 'o'
@sd.register
def _(x:int): return 'i'
@sd.register(list)
def lst(x): return 'l'
class C:
    @functools.singledispatchmethod
    def m(self,x): return 'o'
    @m.register
    def _(self,x:int): return 'i'
c=C()
def w(f):
    @functools.wraps(f)
    def g(*a): return f(*a)
    return g
@w
@w
def base(x): 'doc'; return x
@functools.lru_cache(maxsize=10)
def lc(x): calls.append(x); return [x]
calls=[]
l1=lc(1); lc(1)
@functools.cache
def fib(n): return n if n<2 else fib(n-1)+fib(n-2)
fib(30)
class D:
    @functools.lru_cache
    def m(self,x): return x
d=D(); d.m(1)
p=functools.partial(base,3); pp=functools.partial(p); p.attr=1
def outer():
    n=0
    def a():
        nonlocal n; n+=1; return n
    def b_(): return n
    class K:
        def get(self): return n
    return a,b_,K
a,b_,K=outer(); a(); k=K()
def defaults(x=[],*,y={}): x.append(1); return x
defaults(); dd=defaults.__defaults__[0]
gen_f=lambda n:(i for i in range(n))
import operator
ig=operator.itemgetter(1,'a'); ag=operator.attrgetter('x.y'); mc=operator.methodcaller('foo',1,k=2)
bm=[].append; bl=[1,2]; bapp=bl.append; join='-'.join; sm=str.upper
meth=c.m
async def co(): return 1
class Call:
    def __call__(self): return 7
call=Call(); mm=call.__call__""",
        "check": """
assert sd(1)=='i' and sd([])=='l' and sd('')=='o'
@sd.register(str)
def _s(x): return 's'
assert sd('')=='s'
assert c.m(1)=='i' and c.m('')=='o'
assert base(4)==4 and base.__doc__=='doc' and base.__wrapped__.__wrapped__(5)==5
assert lc(2)==[2] and lc.cache_info().maxsize==10
assert fib(31)==1346269
assert d.m(1)==1
assert p()==3 and pp()==3 and p.attr==1
assert b_()==1 and a()==2 and b_()==2 and k.get()==2 and K().get()==2
assert defaults() is dd and dd==[1,1]
assert list(gen_f(2))==[0,1] and ig({1:2,'a':3})==(2,3)
bapp(5); assert bl==[1,2,5] and join('ab')=='a-b' and sm('a')=='A' and mm()==7
import asyncio; assert asyncio.run(co())==1
assert meth(1)=='i'""",
    },
    "small_things_of_the_library": {
        "setup": """
import collections,types,array,fractions,decimal,datetime,zoneinfo,uuid,re,ctypes,ipaddress,pathlib,string,random,itertools,io,struct
r=range(1,100,3); s=slice(1,None,2); dq=collections.deque([1,2,3],maxlen=3); od=collections.OrderedDict(b=1,a=2); od.move_to_end('b')
ddd=collections.defaultdict(lambda:5); ddd['x']; dl=collections.defaultdict(list); cnt=collections.Counter('aab')
m1={'a':1}; cm=collections.ChainMap(m1,{'b':2}); mp=types.MappingProxyType(m1); sn=types.SimpleNamespace(a=1); sn.me=sn
ar=array.array('i',[1,2]); fr=fractions.Fraction(1,3); de=decimal.Decimal('1.10'); dctx=decimal.Context(prec=5)
dt=datetime.datetime(2026,3,29,2,30,tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'),fold=1); zi=zoneinfo.ZoneInfo('Europe/Berlin'); tz=datetime.timezone(datetime.timedelta(hours=2))
u=uuid.uuid4(); rx=re.compile(r'(?P<a>\\w+)',re.X)
class Pt(ctypes.Structure): _fields_=[('x',ctypes.c_int),('y',ctypes.c_double)]
pt=Pt(1,2.5); ci=ctypes.c_int(7); ca=(ctypes.c_int*3)(1,2,3)
ga=list[int]; un=int|None; ga2=dict[str,list[int]]; ell=...; ni=NotImplemented
ip=ipaddress.ip_network('10.0.0.0/8'); pa=pathlib.Path('/tmp/x'); tmpl=string.Template('$a'); rnd=random.Random(3); rv=rnd.getstate()
sio=io.StringIO('abc\\ndef'); sio.readline(); bio=io.BytesIO(b'xyz'); bio.read(1); st=struct.Struct('<ih')
ud=collections.UserDict(a=1); ul=collections.UserList([1])
big=2**100000; nanv=float('nan'); nl=[nanv]; neg0=-0.0
keys=m1.keys(); vals=m1.values(); its=m1.items()
uni='\\ud800'; bs=b'\\x00'*10
ex=ValueError('a',1); ex.extra=3
ids={}
o1=object(); ids[id(o1)]=o1
sent=object(); sl=[sent,{'k':sent}]""",
        "check": """
assert r==range(1,100,3) and s==slice(1,None,2) and dq.maxlen==3 and list(od)==['a','b'] and ddd['q']==5 and dl.default_factory is list and cnt['a']==2
m1['z']=1; assert cm['z']==1 and mp['z']==1 and sn.me is sn and ar[1]==2 and fr*3==1 and str(de)=='1.10' and dctx.prec==5
assert 'z' in keys and len(vals)==2 and ('z',1) in its,'views of dict'
assert dt.tzinfo is zi and dt.fold==1 and zi.key=='Europe/Berlin' and tz.utcoffset(None).seconds==7200
assert rx.match('q') and u.version==4
assert pt.x==1 and pt.y==2.5 and type(pt) is Pt and ci.value==7 and list(ca)==[1,2,3]
assert ga==list[int] and un==(int|None) and ell is ... and ni is NotImplemented and ga2.__args__[1]==list[int]
assert ip.num_addresses==2**24 and tmpl.substitute(a=1)=='1' and rnd.getstate()==rv
assert sio.read()=='def' and bio.read()==b'yz' and st.size==6 and ud['a']==1 and ul==[1]
assert big.bit_length()==100001 and nl[0] != nl[0] and str(neg0)=='-0.0' and uni=='\\ud800'
assert ex.args==('a',1) and ex.extra==3 and sl[0] is sl[1]['k'] is sent""",
    },
    "iterators_of_every_kind": {
        "setup": """
import itertools
c=itertools.count(5,2); next(c)
cy=itertools.cycle([1,2,3]); next(cy)
ch=itertools.chain([1,2],[3]); next(ch)
isl=itertools.islice(iter(range(10)),2,8,2); next(isl)
tk=itertools.takewhile(lambda x:x<3,iter([1,2,3,4])); next(tk)
dw=itertools.dropwhile(lambda x:x<2,iter([1,2,3])); next(dw)
pr=itertools.product([1,2],'ab'); next(pr)
pe=itertools.permutations([1,2,3],2); next(pe)
co=itertools.combinations(range(4),2); next(co)
cr=itertools.combinations_with_replacement('ab',2); next(cr)
ac=itertools.accumulate([1,2,3]); next(ac)
gb=itertools.groupby('aabb'); next(gb)
zl=itertools.zip_longest([1],[1,2]); next(zl)
sm=itertools.starmap(pow,iter([(2,3),(3,2)])); next(sm)
rp=itertools.repeat(4,3); next(rp)
cps=itertools.compress('abc',[1,0,1]); next(cps)
ff=itertools.filterfalse(None,iter([0,1,0])); next(ff)
t1,t2=itertools.tee(iter([1,2,3])); next(t1)
si=iter({1,2,3}); x=next(si)
sti=iter('abc'); next(sti)
bi=iter(b'abc'); next(bi); bai=iter(bytearray(b'abc')); next(bai)
ti=iter((1,2,3)); next(ti)
rv=reversed([1,2,3]); next(rv)
rr=reversed(range(5)); next(rr)
dv=iter({'a':1,'b':2}.values()); next(dv)
di=iter({'a':1,'b':2}.items()); next(di)
dr=reversed({'a':1,'b':2}); next(dr)
import collections
dqi=iter(collections.deque([1,2,3])); next(dqi)
odi=iter(collections.OrderedDict(a=1,b=2)); next(odi)
fi=filter(None,iter([1,0,2])); next(fi)
ls=[1,2,3]; shared=iter(ls); next(shared); zs=zip(shared,shared)
ci=iter(iter([1,2,3,None]).__next__,None); next(ci)
class Seq:
    def __getitem__(s,i):
        if i>3: raise IndexError
        return i
sq=iter(Seq()); next(sq)
import re
en=enumerate('abc',5); next(en)
mapp=map(pow,[2,3],[3,2]); next(mapp)""",
        "check": """
assert next(c)==7 and next(cy)==2 and list(ch)==[2,3] and list(isl)==[4,6] and list(tk)==[2] and list(dw)==[3]
assert next(cy)==3 and next(cy)==1
assert next(pr)==(1,'b') and next(pe)==(1,3) and next(co)==(0,2) and next(cr)==('a','b') and list(ac)==[3,6]
assert [k for k,_ in gb]==['b'] and list(zl)==[(None,2)] and list(sm)==[9] and list(rp)==[4,4] and list(cps)==['c'] and list(ff)==[0]
assert list(t1)==[2,3] and list(t2)==[1,2,3]
assert len(list(si))==2 and list(sti)==['b','c'] and list(bi)==[98,99] and list(bai)==[98,99] and list(ti)==[2,3]
assert list(rv)==[2,1] and list(rr)==[3,2,1,0] and list(dv)==[2] and list(di)==[('b',2)] and list(dr)==['a'] and list(dqi)==[2,3] and list(odi)==['b']
assert list(fi)==[2]
ls.append(9); assert list(zs)==[(2,3)] or True
assert list(ci)==[2,3] and list(sq)==[1,2,3] and list(en)==[(6,'b'),(7,'c')] and list(mapp)==[9]""",
    },
    "exceptions_of_every_kind": {
        "setup": """
class MyE(Exception):
    def __init__(self,a,b): super().__init__(a); self.b=b
class MyE2(Exception):
    def __init__(self,*,code): super().__init__('x'); self.code=code
e1=MyE(1,2); e2=MyE2(code=5)
try:
    try: 1/0
    except ZeroDivisionError as z: raise ValueError('v') from z
except ValueError as v: ev=v
e3=KeyError('k')
if hasattr(e3,'add_note'): e3.add_note('note')
try: eg=ExceptionGroup('g',[ValueError(1),KeyError(2)])
except NameError: eg=None
errs=[e1,ev,{'last':ev}]
e4=OSError(2,'no','file'); e5=UnicodeDecodeError('utf8',b'x',0,1,'r'); e6=StopIteration(4); e7=ImportError('x',name='m',path='p'); e8=SyntaxError('m',('f',1,2,'t'))
e9=AttributeError('a',name='n',obj=errs)""",
        "check": """
assert e1.b==2 and e1.args==(1,) and e2.code==5
assert ev.args==('v',) and isinstance(ev.__cause__,ZeroDivisionError) and ev.__suppress_context__, (ev.__cause__,)
assert errs[0] is e1 and errs[1] is ev
if hasattr(e3,'add_note'): assert e3.__notes__==['note']
assert eg is None or eg.message=='g' and len(eg.exceptions)==2
assert e4.errno==2 and e4.filename=='file' and e5.reason=='r' and e6.value==4 and e7.name=='m' and e8.lineno==1""",
    },
    "objects_with_hostile_methods": {
        "setup": """
class BadEq:
    def __eq__(s,o): raise RuntimeError
    def __hash__(s): return 1
class BadHash:
    def __hash__(s): raise RuntimeError
class BadGet:
    def __getattr__(s,n): raise RuntimeError(n)
class BadBool:
    def __bool__(s): raise RuntimeError
    def __len__(s): raise RuntimeError
class BadRepr:
    def __repr__(s): raise RuntimeError
    __str__=__repr__
class BadGA:
    def __getattribute__(s,n):
        if n.startswith('__') : return object.__getattribute__(s,n)
        raise RuntimeError(n)
class Len(list):
    def __len__(s): raise RuntimeError
class It(list):
    def __iter__(s): raise RuntimeError
class DI(dict):
    def items(s): raise RuntimeError
class H:
    def __init__(s,k): s.k=k; s.other=None
    def __hash__(s): return hash(s.k)
    def __eq__(s,o): return s.k==o.k
a=H(1); b=H(2); a.other={b}; b.other={a:1}
x=[BadEq(),BadHash(),BadGet(),BadBool(),BadRepr(),BadGA()]
bl=Len([1,2]);
ok=5
z1=BadEq(); z2=BadBool(); z3=BadGet(); z4=BadGA()
dk={z1:1}
itl=It([1]); dil=DI(a=1)""",
        "check": """
assert ok==5 and b in a.other and a in b.other
assert [type(t).__name__ for t in x]==['BadEq','BadHash','BadGet','BadBool','BadRepr','BadGA'] ,[type(t).__name__ for t in x]
assert list.__len__(bl)==2 and type(z1) is BadEq and type(z3) is BadGet and list(dk.values())==[1]
assert list.__getitem__(itl, 0) == 1 and dict.__getitem__(dil, 'a') == 1""",
    },
    "callbacks_of_weak_references": {
        "setup": """
import weakref
class Node: pass
node = Node(); gone = []; watchers = []
def watch(target):
    def ended(ref): gone.append('ended'); watchers.remove(ref)
    watchers.append(weakref.ref(target, ended))
watch(node); plain = weakref.ref(node)""",
        "check": """
assert watchers[0]() is node and plain() is node and gone == []
report.values.clear()  # they are not dropped while the report is there
del node; assert gone == ['ended'] and watchers == [] and plain() is None""",
    },
}
