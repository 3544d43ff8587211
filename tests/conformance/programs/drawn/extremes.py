"""Data that most draws do not have: zeros alone, a large mean, a scalar beyond all sums."""

from tvm.script import tirx as T


# right: rows in units of their largest element, which has a floor
@T.prim_func(s_tir=True)
def scaled_rows(x: T.Buffer((6, 40)), q: T.Buffer((6, 40)), s: T.Buffer((6,))):
    for i in range(6):
        s[i] = T.float32(1e-6)
        for j in range(40):
            s[i] = T.max(s[i], T.abs(x[i, j]))
        for j in range(40):
            q[i, j] = x[i, j] / s[i]


# right: a mean of those that have a label
@T.prim_func(s_tir=True)
def labelled(x: T.Buffer((9, 13)), at: T.Buffer((9,), "int32"), y: T.Buffer((1,))):
    count = T.alloc_buffer((1,), "int32")
    count[0] = 0
    y[0] = T.float32(0)
    for i in range(9):
        if at[i] != -100:
            y[0] = y[0] + x[i, at[i]]
            count[0] = count[0] + 1
    y[0] = y[0] / T.Cast("float32", T.max(count[0], 1))


# right: no factor is above 1
@T.prim_func(s_tir=True)
def limited(x: T.Buffer((30,)), most: T.float32, y: T.Buffer((30,))):
    total = T.alloc_buffer((1,))
    total[0] = T.float32(1)
    for i in range(30):
        total[0] = total[0] + x[i] * x[i]
    for i in range(30):
        y[i] = x[i] * T.min(T.float32(1), most / total[0])


# right: a sum weighted by exponentials, in parts that are merged, of which some are masked
@T.prim_func(s_tir=True)
def merged_parts(s: T.Buffer((6, 32)), v: T.Buffer((6, 32)), y: T.Buffer((6,))):
    m = T.alloc_buffer((6,))
    for i in range(6):
        m[4] = T.float32(-3e38)
        for p in range(4):
            m[p] = T.float32(-3e38)
            for j in range(8):
                m[p] = T.max(m[p], s[i, p * 8 + j])
            m[4] = T.max(m[4], m[p])
        m[5] = T.float32(0)
        y[i] = T.float32(0)
        for p in range(4):
            for j in range(8):
                m[5] = m[5] + T.exp(s[i, p * 8 + j] - m[4])
                y[i] = y[i] + T.exp(s[i, p * 8 + j] - m[4]) * v[i, p * 8 + j]
        y[i] = y[i] / m[5]


# right: rows with a mean of 0 and a variance of 1
@T.prim_func(s_tir=True)
def normalized(x: T.Buffer((8, 64)), y: T.Buffer((8, 64))):
    m = T.alloc_buffer((2,))
    for i in range(8):
        m[0] = T.float32(0)
        m[1] = T.float32(0)
        for k in range(64):
            m[0] = m[0] + x[i, k] / T.float32(64)
        for k in range(64):
            m[1] = m[1] + (x[i, k] - m[0]) * (x[i, k] - m[0])
        for k in range(64):
            y[i, k] = (x[i, k] - m[0]) / T.sqrt(m[1] / T.float32(64) + T.float32(1e-5))


# right: the same by Welford's updates
# reference: normalized
@T.prim_func(s_tir=True)
def normalized_by_updates(x: T.Buffer((8, 64)), y: T.Buffer((8, 64))):
    m = T.alloc_buffer((3,))
    for i in range(8):
        m[0] = T.float32(0)
        m[1] = T.float32(0)
        for k in range(64):
            m[2] = x[i, k] - m[0]
            m[0] = m[0] + m[2] / T.Cast("float32", k + 1)
            m[1] = m[1] + m[2] * (x[i, k] - m[0])
        for k in range(64):
            y[i, k] = (x[i, k] - m[0]) / T.sqrt(m[1] / T.float32(64) + T.float32(1e-5))


# right: sums of the elements up to a place, weighted by exponentials
@T.prim_func(s_tir=True)
def weighted(s: T.Buffer((12, 12)), v: T.Buffer((12, 3)), y: T.Buffer((12,))):
    m = T.alloc_buffer((2,))
    for i in range(12):
        m[0] = T.float32("-inf")
        for j in range(i + 1):
            m[0] = T.max(m[0], s[i, j])
        m[1] = T.float32(0)
        y[i] = T.float32(0)
        for j in range(i + 1):
            m[1] = m[1] + T.exp(s[i, j] - m[0])
            y[i] = y[i] + T.exp(s[i, j] - m[0]) * v[j, 0]
        y[i] = y[i] / m[1]


# right: the same by weights of 0, which no element is infinite for
# reference: weighted
@T.prim_func(s_tir=True)
def weighted_by_zeros(s: T.Buffer((12, 12)), v: T.Buffer((12, 3)), y: T.Buffer((12,))):
    m = T.alloc_buffer((3,))
    for i in range(12):
        m[0] = T.float32("-inf")
        for j in range(i + 1):
            m[0] = T.max(m[0], s[i, j])
        m[1] = T.float32(0)
        y[i] = T.float32(0)
        for j in range(12):
            m[2] = T.exp(T.if_then_else(j <= i, s[i, j], T.float32("-inf")) - m[0])
            m[1] = m[1] + m[2]
            y[i] = y[i] + m[2] * v[j, 0]
        y[i] = y[i] / m[1]


# right: the roots of trees, whose longest way may be of all nodes
@T.prim_func(s_tir=True)
def roots(at: T.Buffer((32,), "int32"), y: T.Buffer((32,), "int32")):
    for i in range(32):
        y[i] = i
        for _ in range(31):
            y[i] = T.min(y[i], at[y[i]])


# right: what a batch norm makes of a mean and a variance
@T.prim_func(s_tir=True)
def centred(
    x: T.Buffer((6, 20)),
    m: T.Buffer((6,)),
    v: T.Buffer((6,)),
    g: T.Buffer((6,)),
    y: T.Buffer((6, 20)),
):
    for i, k in T.grid(6, 20):
        y[i, k] = (x[i, k] - m[i]) / T.sqrt(T.abs(v[i]) + T.float32(1e-3)) * g[i]


# right: the same as a factor and a summand, as models have it
# reference: centred
@T.prim_func(s_tir=True)
def folded(
    x: T.Buffer((6, 20)),
    m: T.Buffer((6,)),
    v: T.Buffer((6,)),
    g: T.Buffer((6,)),
    y: T.Buffer((6, 20)),
):
    s = T.alloc_buffer((2,))
    for i in range(6):
        s[0] = g[i] * T.rsqrt(T.abs(v[i]) + T.float32(1e-3))
        s[1] = m[i] * s[0]
        for k in range(20):
            y[i, k] = x[i, k] * s[0] - s[1]


# right: rows in units of their root mean square
@T.prim_func(s_tir=True)
def in_units(x: T.Buffer((6, 32), "bfloat16"), y: T.Buffer((6, 32), "bfloat16")):
    s = T.alloc_buffer((1,))
    for i in range(6):
        s[0] = T.float32(1e-6)
        for k in range(32):
            s[0] = s[0] + T.Cast("float32", x[i, k]) * T.Cast("float32", x[i, k])
        for k in range(32):
            y[i, k] = T.Cast("bfloat16", T.Cast("float32", x[i, k]) / T.sqrt(s[0]))
