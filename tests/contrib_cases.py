# SPDX-License-Identifier: Apache-2.0
"""What tests/contrib.py runs: for each operator of ONNX Runtime the attributes and optional inputs that its CPU provider
takes. An input that is drawn is fed, unless it is made by `kept`; what is given as numbers is a constant."""

import dataclasses

import numpy as np

MS = "com.microsoft"
BOTH = ("y", "z")


@dataclasses.dataclass
class Drawn:
    shape: tuple
    dtype: type = np.float32
    low: float = -2
    high: float = 2
    is_constant: bool = False

    def draw(self, rng):
        if np.dtype(self.dtype).kind in "iub":
            return rng.integers(self.low, self.high + 1, self.shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


@dataclasses.dataclass
class Case:
    label: str
    operator: str
    inputs: list
    attributes: dict
    outputs: tuple
    domain: str
    within: float = None  # absolute bound, else that of the type


CASES = []


def case(operator, inputs, outputs=("y",), domain=MS, within=None, **attributes):
    number = 1 + sum(one.operator == operator for one in CASES)
    CASES.append(Case(f"{operator}/{number}", operator, inputs, attributes, outputs, domain, within))


def real(*shape, **more):
    return Drawn(shape, **more)


def kept(*shape, dtype=np.float32, low=-1, high=1):
    return Drawn(shape, dtype, low, high, True)


def byte(*shape, signed=False, constant=False):
    low, high = (-128, 127) if signed else (0, 255)
    return Drawn(shape, np.int8 if signed else np.uint8, low, high, constant)


def f32(x):
    return np.array(x, np.float32)


def u8(x):
    return np.array(x, np.uint8)


def i8(x):
    return np.array(x, np.int8)


def i32(x):
    return np.array(x, np.int32)


def i64(x):
    return np.array(x, np.int64)


# ---- activations, biases, softmax ----

case("Gelu", [real(2, 3, 4)])
case("Gelu", [real(0, 4)])
case("BiasGelu", [real(2, 3, 4), kept(4)])
case("FastGelu", [real(2, 3, 4)])
case("FastGelu", [real(2, 3, 4), kept(4)])
case("QuickGelu", [real(2, 3, 4)])
case("QuickGelu", [real(2, 3, 4)], alpha=0.5)

# ---- normalizations ----

case("LayerNormalization", [real(2, 3, 8), kept(8), kept(8)], domain="", axis=-1, epsilon=1e-3)
case("LayerNormalization", [real(2, 3, 8), kept(3, 8), kept(3, 8)], ("y", "m", "s"), domain="", axis=1)
case("SimplifiedLayerNormalization", [real(2, 3, 8), kept(8)], domain="", axis=-1, epsilon=1e-3)
case("SimplifiedLayerNormalization", [real(2, 3, 8), kept(8)], ("y", "s"), domain="", axis=-1)
case("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), kept(8)])
case("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), kept(8), kept(8), kept(8)], ("y", None, None, "s"), epsilon=1e-3)
case("SkipLayerNormalization", [real(2, 3, 8), real(1, 3, 8), kept(8), kept(8)])
case("SkipLayerNormalization", [real(2, 3, 8), real(3, 8), kept(8), kept(8)])
case("SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), kept(8)], epsilon=1e-3)
case("SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), kept(8), kept(8)], ("y", None, None, "s"))

WORDS = [Drawn((2, 5), np.int32, 0, 9), Drawn((2, 5), np.int32, 0, 1), kept(10, 8), kept(6, 8), kept(2, 8), kept(8), kept(8)]
case("EmbedLayerNormalization", WORDS, ("y", "m"))
case("EmbedLayerNormalization", [*WORDS, i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])], ("y", "m"), epsilon=1e-3)
case("EmbedLayerNormalization", [*WORDS, None, i32([[0, 2, 1, 5, 4]] * 2)], ("y", "m", "s"))
case("EmbedLayerNormalization", [*WORDS, None, i32([[0, 2, 1, 5, 4]])], ("y", "m"))
case("EmbedLayerNormalization", [WORDS[0], None, *WORDS[2:4], None, *WORDS[5:]], ("y", "m"), mask_index_type=0)

# ---- convolutions and products ----

for activation, parameters in (("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", []), ("Sigmoid", [])):
    given = {"activation_params": parameters} if parameters else {}
    case("FusedConv", [real(2, 4, 6, 5), kept(6, 2, 3, 3), kept(6)], activation=activation, group=2, pads=[1, 0, 1, 0], strides=[2, 1], **given)
case("FusedConv", [real(1, 2, 6, 6), kept(3, 2, 3, 3), None, real(1, 3, 4, 4)], activation="Relu", dilations=[1, 1], kernel_shape=[3, 3])
case("FusedConv", [real(1, 2, 6, 6), kept(3, 2, 3, 3), kept(3), real(1, 3, 6, 6)], auto_pad="SAME_UPPER")
for activation, parameters in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Elu", {"activation_alpha": 0.7}),
                               ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}), ("Softplus", {}), ("Softsign", {}),
                               ("Selu", {"activation_alpha": 1.5, "activation_gamma": 1.1}), ("ThresholdedRelu", {"activation_alpha": 0.4}),
                               ("Tanh", {}), ("Sigmoid", {})):
    case("FusedGemm", [real(3, 4), kept(5, 4), kept(5)], activation=activation, transB=1, alpha=0.5, beta=2.0, **parameters)
case("FusedGemm", [real(4, 3), kept(4, 5)], activation="Relu", transA=1)
case("FusedMatMul", [real(2, 3, 4, 5), real(2, 3, 5, 6)])
case("FusedMatMul", [real(2, 3, 5, 4), real(2, 3, 6, 5)], transA=1, transB=1, alpha=0.25)
case("FusedMatMul", [real(4, 2, 3, 5), real(2, 3, 5, 6)], transBatchA=1)
case("FusedMatMul", [real(2, 3, 4, 5), real(6, 2, 3, 5)], transBatchB=1, transB=1)
case("FusedMatMul", [real(2, 3, 4, 5, dtype=np.float64), real(5, 6, dtype=np.float64)], alpha=3.0)
case("FusedMatMul", [real(5), real(5)], alpha=3.0)
case("FusedMatMul", [real(5), real(2, 5, 6)], transA=1)
case("TransposeMatMul", [real(2, 5, 4), real(2, 5, 6)], transA=1, alpha=0.5)
case("NhwcMaxPool", [byte(1, 5, 6, 3)], kernel_shape=[2, 3], pads=[0, 1, 1, 0], strides=[2, 2])
case("NhwcMaxPool", [byte(1, 5, 6, 3, signed=True)], kernel_shape=[3, 3], dilations=[2, 1], ceil_mode=1)

# ---- attention ----

ATTENTION = [real(2, 5, 8), kept(8, 24), kept(24)]
case("Attention", ATTENTION, num_heads=2)
case("Attention", [*ATTENTION[:2], None], num_heads=2, scale=0.3)
case("Attention", ATTENTION, ("y", "p"), num_heads=2, unidirectional=1)
case("Attention", [*ATTENTION, i32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])], num_heads=2)
case("Attention", [*ATTENTION, i32([3, 5])], num_heads=2, mask_filter_value=-1000.0)
case("Attention", [*ATTENTION, i32([3, 5, 1, 0])], num_heads=2)
case("Attention", [*ATTENTION, Drawn((2, 5, 5), np.int32, 0, 1)], num_heads=2, unidirectional=1)
case("Attention", [*ATTENTION, None, real(2, 2, 2, 3, 4)], BOTH, num_heads=2, unidirectional=1)
case("Attention", [*ATTENTION, Drawn((2, 8), np.int32, 0, 1), real(2, 2, 2, 3, 4)], BOTH, num_heads=2)
case("Attention", [*ATTENTION, None, None, real(2, 2, 5, 5)], num_heads=2)
case("Attention", [*ATTENTION, None, None, real(1, 2, 5, 5)], num_heads=2)
case("Attention", [real(2, 5, 8), kept(8, 20), kept(20)], num_heads=2, qkv_hidden_sizes=[8, 8, 4])
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), kept(24)], num_heads=2, scale=0.3)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 4), kept(20)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), None, i32([[1, 1, 1, 0, 0, 1], [1, 1, 1, 1, 1, 0]])], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), None, i32([4, 6])], num_heads=2, mask_filter_value=-500.0)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), None, i32([4, 6, 0, 5, 10, 0, 6, 12])], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 5, 8), real(2, 5, 8), None, Drawn((2, 5, 5), np.int32, 0, 1)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), None, None, real(2, 2, 5, 6)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 6, 8), real(2, 6, 8), None, None, real(1, 1, 5, 6)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 5, 8), real(2, 5, 8)], num_heads=2, unidirectional=1)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 2, 6, 4), real(2, 2, 6, 4)], num_heads=2)
case("MultiHeadAttention", [real(2, 5, 8), real(2, 2, 6, 4), real(2, 2, 6, 4), kept(24)], num_heads=2)
case("MultiHeadAttention", [real(2, 1, 8), real(2, 1, 8), real(2, 1, 8), None, None, None, real(2, 2, 3, 4), real(2, 2, 3, 4)], ("y", "k", "v"),
     num_heads=2)
case("MultiHeadAttention", [real(2, 3, 8), real(2, 3, 8), real(2, 3, 8), kept(24), None, None, real(2, 2, 4, 4), real(2, 2, 4, 4)],
     ("y", "k", "v", "qk"), num_heads=2, unidirectional=1)
case("MultiHeadAttention", [real(2, 1, 8), real(2, 1, 8), real(2, 1, 8), None, None, None, real(2, 2, 6, 4), real(2, 2, 6, 4), i32([3])],
     ("y", "k", "v"), num_heads=2)
PAST = [real(2, 2, 6, 4), real(2, 2, 6, 4), i32([3])]
case("DecoderMaskedMultiHeadAttention", [real(2, 1, 8), real(2, 1, 8), real(2, 1, 8), None, None, *PAST], ("y", "k", "v"), num_heads=2,
     past_present_share_buffer=1)
case("DecoderMaskedMultiHeadAttention", [real(2, 1, 8), real(2, 1, 8), real(2, 1, 8), i32([[1, 1, 0, 1], [1, 0, 1, 1]]), real(1, 2, 1, 4), *PAST,
                                         None, None, kept(24)], ("y", "k", "v"), num_heads=2, past_present_share_buffer=1, scale=0.4)
case("DecoderMaskedMultiHeadAttention", [real(4, 1, 8), real(4, 1, 8), real(4, 1, 8), None, None, real(4, 2, 6, 4), real(4, 2, 6, 4), i32([3]),
                                         i32([2]), Drawn((2, 2, 6), np.int32, 0, 1)], ("y", "k", "v"), num_heads=2, past_present_share_buffer=1)

LENGTHS = [i32([4, 4]), i32(5)]
CACHES = [kept(16, 8), kept(16, 8)]
QKV = [real(2, 5, 64), real(2, 5, 32), real(2, 5, 32)]
case("GroupQueryAttention", [*QKV, None, None, *LENGTHS], ("y", "k", "v"), num_heads=4, kv_num_heads=2)
case("GroupQueryAttention", [real(2, 5, 128), None, None, None, None, *LENGTHS], ("y", "k", "v"), num_heads=4, kv_num_heads=2, scale=0.4)
case("GroupQueryAttention", [*QKV, None, None, *LENGTHS, *CACHES], ("y", "k", "v"), num_heads=4, kv_num_heads=2, do_rotary=1)
case("GroupQueryAttention", [*QKV, None, None, *LENGTHS, *CACHES], ("y", "k", "v"), num_heads=4, kv_num_heads=2, do_rotary=1, rotary_interleaved=1)
STEP = [real(2, 1, 64), real(2, 1, 32), real(2, 1, 32), real(2, 2, 6, 16), real(2, 2, 6, 16), i32([3, 5]), i32(6)]
case("GroupQueryAttention", STEP, ("y", "k", "v"), num_heads=4, kv_num_heads=2)
case("GroupQueryAttention", [*STEP, *CACHES], ("y", "k", "v"), num_heads=4, kv_num_heads=2, do_rotary=1, softcap=5.0)
case("GroupQueryAttention", STEP, ("y", "k", "v"), num_heads=4, kv_num_heads=2, local_window_size=3)
case("GroupQueryAttention", [*STEP, None, None, None, real(2, 4, 1, 6)], ("y", "k", "v"), num_heads=4, kv_num_heads=2)
case("GroupQueryAttention", STEP, ("y", "k", "v"), num_heads=4, kv_num_heads=2, smooth_softmax=1)
case("GroupQueryAttention", [*STEP, None, None, None, None, kept(4)], ("y", "k", "v"), num_heads=4, kv_num_heads=2)
case("GroupQueryAttention", [*QKV, None, None, i32([2, 4]), i32(5), *CACHES], ("y", "k", "v"), num_heads=4, kv_num_heads=2, do_rotary=1)
case("GroupQueryAttention", [*QKV, None, None, *LENGTHS], ("y", "k", "v", "s"), num_heads=4, kv_num_heads=2, qk_output=1)
case("GroupQueryAttention", [*QKV, None, None, *LENGTHS], ("y", "k", "v", "s"), num_heads=4, kv_num_heads=2, qk_output=2)
case("RotaryEmbedding", [real(2, 3, 8), i64([4]), kept(9, 2), kept(9, 2)])
case("RotaryEmbedding", [real(2, 3, 8), i64([[1, 0, 2], [5, 8, 3]]), kept(9, 2), kept(9, 2)], interleaved=1)
case("RotaryEmbedding", [real(2, 2, 3, 4), i64([0]), kept(9, 2), kept(9, 2)])
case("RotaryEmbedding", [real(2, 3, 12), i64([2]), kept(9, 2), kept(9, 2)], num_heads=2, rotary_embedding_dim=4)
case("RotaryEmbedding", [real(2, 3, 8), i64([4]), kept(9, 2), kept(9, 2)], scale=2.0)
case("RotaryEmbedding", [real(2, 3, 8), i64([[4, 2, 0], [1, 2, 3]]), kept(9, 2), kept(9, 2)], is_packed_batching=1)

# ---- quantized ----

Q8 = [f32(0.02), u8(120)]
S8 = [f32(0.03), i8(-7)]
case("QLinearAdd", [byte(2, 3, 4), *Q8, byte(4, constant=True), f32(0.01), u8(3), f32(0.05), u8(100)])
case("QLinearAdd", [byte(2, 3, signed=True), *S8, byte(2, 3, signed=True), f32(0.01), i8(3), f32(0.05), i8(-100)])
case("QLinearMul", [byte(2, 3, 4), *Q8, byte(4, constant=True), f32(0.01), u8(3), f32(0.05), u8(100)])
case("QLinearMul", [byte(2, 3, signed=True), *S8, byte(1, 3, signed=True), f32(0.01), i8(3), f32(0.05), i8(-100)])
case("QLinearSigmoid", [byte(2, 30), *Q8, f32(1 / 256), u8(0)])
case("QLinearSigmoid", [byte(2, 30, signed=True), *S8, f32(1 / 256), i8(-128)])
case("QLinearLeakyRelu", [byte(2, 30), *Q8, f32(0.02), u8(90)], alpha=0.2)
case("QLinearLeakyRelu", [byte(2, 30, signed=True), *S8, f32(0.02), i8(9)])
case("QLinearSoftmax", [byte(2, 3, 7), *Q8, f32(1 / 256), u8(0)], axis=-1, opset=13)
case("QLinearSoftmax", [byte(2, 3, 7), *Q8, f32(1 / 256), u8(0)], axis=1, opset=13)
case("QLinearSoftmax", [byte(2, 3, 7), *Q8, f32(1 / 256), u8(0)], axis=1, opset=12)
case("QLinearSoftmax", [byte(2, 7, signed=True), *S8, f32(1 / 256), i8(-128)], axis=-1, opset=13)
case("QLinearConcat", [f32(0.05), u8(100), byte(2, 3), *Q8, byte(2, 4), f32(0.01), u8(3)], axis=1)
case("QLinearConcat", [f32(0.05), i8(1), byte(2, 3, signed=True), *S8, byte(1, 3, signed=True), f32(0.01), i8(3)], axis=-2)
case("QLinearWhere", [Drawn((2, 3), np.bool_, 0, 1), byte(2, 3), *Q8, byte(3), f32(0.01), u8(3), f32(0.05), u8(100)])
case("QLinearWhere", [Drawn((2, 1), np.bool_, 0, 1), byte(2, 3, signed=True), *S8, byte(1, 3, signed=True), f32(0.01), i8(3), f32(0.05), i8(0)])
case("QLinearAveragePool", [byte(1, 2, 6, 6), *Q8, f32(0.02), u8(110)], kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1])
case("QLinearAveragePool", [byte(1, 6, 6, 2), *Q8, f32(0.02), u8(110)], kernel_shape=[3, 3], channels_last=1, count_include_pad=1, pads=[1, 1, 1, 1])
case("QLinearAveragePool", [byte(1, 2, 6, 6, signed=True), *S8, f32(0.02), i8(0)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
case("QLinearGlobalAveragePool", [byte(2, 3, 5, 4), *Q8, f32(0.02), u8(110)])
case("QLinearGlobalAveragePool", [byte(2, 5, 4, 3), *Q8, f32(0.02), u8(110)], channels_last=1)
case("QLinearConv", [byte(1, 5, 5, 2), *Q8, byte(3, 2, 3, 3, constant=True), f32(0.01), u8(3), f32(0.5), u8(100)], channels_last=1, pads=[1, 1, 1, 1])
case("QLinearConv", [byte(1, 5, 5, 2), *Q8, byte(3, 2, 3, 3, signed=True, constant=True), f32([0.01, 0.02, 0.03]), i8([0, 0, 0]), f32(0.5), u8(100),
                     i32([100, -200, 300])], channels_last=1)
case("QGemm", [byte(3, 4), *Q8, byte(5, 4, constant=True), f32(0.01), u8(3), i32([100, -200, 300, 0, 1])], transB=1)
case("QGemm", [byte(3, 4), *Q8, byte(4, 5, signed=True, constant=True), f32([0.01, 0.02, 0.03, 0.04, 0.05]), i8([0, 1, 2, 3, 4]), None, f32(0.5),
               u8(100)], alpha=1.0)
case("QGemm", [byte(4, 3), *Q8, byte(4, 5, constant=True), f32(0.01), u8(3), i32([[100, -200, 300, 0, 1]] * 3), f32(0.5), u8(100)], transA=1, alpha=2.0)
case("DynamicQuantizeMatMul", [real(3, 4), byte(4, 5, constant=True), f32(0.01), u8(3), kept(5)])
case("DynamicQuantizeMatMul", [real(2, 3, 4), byte(4, 5, signed=True, constant=True), f32([0.01, 0.02, 0.03, 0.04, 0.05])])
case("MatMulIntegerToFloat", [byte(3, 4), byte(4, 5, constant=True), f32(0.02), f32(0.01), u8(7), u8(3), kept(5)])
case("MatMulIntegerToFloat", [byte(3, 4), byte(4, 5, signed=True, constant=True), f32(0.02), f32([0.01, 0.02, 0.03, 0.04, 0.05]), None,
                              i8([0, 1, 2, 3, 4])])
QA = [byte(2, 5, 8), byte(8, 24, constant=True), kept(24), f32(0.01), f32(0.01)]
case("QAttention", [*QA, None, u8(100), u8(130)], num_heads=2)
case("QAttention", [*QA, i32([3, 5]), u8(100), u8(130)], BOTH, num_heads=2, unidirectional=1)
case("QAttention", [*QA, None, u8(100), u8(130), real(2, 2, 2, 3, 4)], BOTH, num_heads=2, unidirectional=1)
case("QAttention", [QA[0], byte(8, 24, signed=True, constant=True), *QA[2:4], kept(24, low=0.01, high=0.02), None, u8(100)], num_heads=2)
for zero in (u8(120), i8(-7), np.array(1000, np.uint16), np.array(-1000, np.int16)):
    case("QuantizeLinear", [real(2, 3), f32(0.02), zero])
    case("DequantizeLinear", [Drawn((2, 3), zero.dtype, 0, 100), f32(0.02), zero])
case("QuantizeLinear", [real(2, 3, 4), f32([0.02, 0.03, 0.04]), u8([1, 2, 3])], axis=1)
case("QuantizeLinear", [real(2, 3), f32(0.02)])
case("DequantizeLinear", [byte(2, 3, 4), f32([0.02, 0.03, 0.04]), u8([1, 2, 3])], axis=1)
case("DequantizeLinear", [Drawn((2, 3), np.int32, -1000, 1000), f32(0.02)])


def recurrent(kind, directions, **more):
    """Weights are [directions, input, 4 * hidden]. ONNX Runtime rounds the inputs of each step to 8 bits too."""
    zero = np.dtype(kind).type
    weight = byte(directions, 4, 12, signed=kind is np.int8, constant=True), byte(directions, 3, 12, signed=kind is np.int8, constant=True)
    grains = [f32([0.01] * directions), np.array([3] * directions, zero), f32([0.02] * directions), np.array([5] * directions, zero)]
    inputs = [real(5, 2, 4), *weight, more.pop("B", None), more.pop("lengths", None), more.pop("h", None), more.pop("c", None), more.pop("P", None),
              *grains]
    case("DynamicQuantizeLSTM", inputs, ("y", "h", "c"), within=0.1, hidden_size=3, **more)


recurrent(np.uint8, 1)
recurrent(np.int8, 1, B=kept(1, 24))
recurrent(np.uint8, 2, direction="bidirectional", B=kept(2, 24), h=real(2, 2, 3), c=real(2, 2, 3))
recurrent(np.uint8, 1, direction="reverse", lengths=i32([5, 3]), P=kept(1, 9), clip=1.0, activations=["Sigmoid", "Tanh", "Tanh"])

# ---- weights of a few bits ----


def few_bits(bits, depth, rows, block, zeros=False, bias=False, groups=None, **more):
    blocks, per_byte = -(-depth // block), 8 // bits
    inputs = [real(3, depth), byte(rows, blocks, block // per_byte, constant=True), kept(rows, blocks, low=0.01, high=0.03)]
    inputs += [byte(rows, -(-blocks // per_byte), constant=True) if zeros else None, groups, kept(rows) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    case("MatMulNBits", inputs, bits=bits, K=depth, N=rows, block_size=block, **more)


few_bits(4, 32, 5, 16)
few_bits(4, 48, 5, 16, zeros=True)
few_bits(4, 40, 5, 32, zeros=True, bias=True)
few_bits(8, 40, 5, 32)
few_bits(8, 64, 5, 32, zeros=True, accuracy_level=1)
few_bits(2, 64, 5, 32, zeros=True)
case("MatMulNBits", [real(3, 32), byte(5, 2, 8, constant=True), kept(5, 2, low=0.01, high=0.03), kept(5, 2, low=0, high=15)], bits=4, K=32, N=5,
     block_size=16)
few_bits(4, 64, 5, 32, groups=i32(np.arange(64) % 2))
few_bits(4, 64, 5, 32, zeros=True, groups=i32(np.arange(64) // 40))
case("GatherBlockQuantized", [byte(6, 16, constant=True), i64([[0, 5], [2, 2]]), kept(6, 2, low=0.01, high=0.03)], bits=4, block_size=16,
     gather_axis=0, quantize_axis=1)
case("GatherBlockQuantized", [byte(6, 16, constant=True), i32([1, -1]), kept(6, 2, low=0.01, high=0.03), byte(6, 1, constant=True)], bits=4,
     block_size=16, gather_axis=0, quantize_axis=1)
case("GatherBlockQuantized", [byte(6, 32, constant=True), i64([4]), kept(6, 2, low=0.01, high=0.03)], bits=8, block_size=16, gather_axis=0,
     quantize_axis=1)

# ---- standard operators in another domain ----

case("Trilu", [real(3, 4)], upper=0)
case("Trilu", [real(2, 3, 4), i64(1)])
case("ExpandDims", [real(3, 4), i32(1)])
case("ExpandDims", [real(3, 4), i32(-1)])
case("GatherND", [real(3, 4, 2), i64([[0, 1], [2, 3]])])
case("GatherND", [real(3, 4), i32([[[0, 1]], [[2, 3]]])])
case("Pad", [real(3, 4), i64([1, 0, 2, 1])])
case("Pad", [real(3, 4), i64([[1, 0, 2, 1]]), f32([1.5])], mode="constant")
case("Pad", [real(3, 4), i64([1, 0, 2, -1])], mode="reflect")
case("Pad", [real(3, 4), i64([1, 0, 2, 1])], mode="edge")
case("Unique", [f32([2, 1, 1, 3, 4, 3])], ("y", "i", "c"))
case("Range", [i32(3), i32(20), i32(4)])
case("Range", [f32(1.5), f32(4)])
for mode in ("bilinear", "nearest", "bicubic"):
    case("GridSample", [real(1, 2, 4, 5), real(1, 3, 3, 2, low=-1.3, high=1.3)], mode=mode, padding_mode="border")
case("GridSample", [real(1, 2, 4, 5), real(1, 3, 3, 2, low=-1.3, high=1.3)], align_corners=1, padding_mode="reflection")
case("Inverse", [real(3, 3)])
case("Inverse", [real(2, 2, 4, 4, dtype=np.float64)])
case("CropAndResize", [real(2, 3, 5, 6), f32([[0.1, 0.2, 0.8, 0.9], [-0.2, 0, 1.3, 1]]), i32([1, 0]), i32([3, 4])], extrapolation_value=0.5)
case("CropAndResize", [real(2, 3, 5, 6), f32([[0.1, 0.2, 0.8, 0.9]]), i32([1]), i32([1, 2])], mode="nearest")
case("CDist", [real(3, 4), real(5, 4)], metric="euclidean")
case("CDist", [real(3, 4), real(5, 4)], metric="sqeuclidean")
case("MatMulInteger16", [Drawn((3, 4), np.int16, -900, 900), Drawn((4, 5), np.int16, -900, 900)])
case("ConvTransposeWithDynamicPads", [real(1, 2, 4, 4), kept(2, 3, 3, 3), i64([1, 0, 1, 0])], strides=[2, 2], output_padding=[1, 1])
case("ConvTransposeWithDynamicPads", [real(1, 2, 4, 4), kept(2, 3, 3, 3), i64([0, 0, 0, 0]), kept(3)])
case("UnfoldTensor", [real(3, 7)], dim=-1, size=3, step=2)
