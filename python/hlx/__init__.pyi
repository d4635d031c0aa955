# Written by python/tools/stubs.py (`cargo xtask python --stubs`).
import builtins
import collections.abc
import typing
from hlx._hlx import device as _device, dtype as _dtype
from hlx._operations._types import Device as _Device, Dims as _Dims, Number as _Number
from hlx._operations._types import Operand as _Operand, Shape as _Shape
from hlx.errors import Error as Error
from hlx._hlx import Generator as Generator
from hlx.contracts import Handle as Handle
from hlx._size import Size as Size
from hlx._hlx import Tensor as Tensor
from hlx.contracts import VulkanContext as VulkanContext
from hlx._operations.functions import abs as abs
from hlx._operations.functions import abs as absolute
from hlx._operations.functions import acos as acos
from hlx._operations.composed import acosh as acosh
from hlx.nn._functional.images import adaptive_avg_pool1d as adaptive_avg_pool1d
from hlx._operations.arithmetic import add as add
from hlx._operations.products import addbmm as addbmm
from hlx._operations.arithmetic import addcdiv as addcdiv
from hlx._operations.arithmetic import addcmul as addcmul
from hlx._operations.products import addmm as addmm
from hlx._operations.products import addmv as addmv
from hlx._operations.products import addr as addr
from hlx._operations.movement import adjoint as adjoint
from hlx._operations.reductions import all as all
from hlx._operations.comparisons import allclose as allclose
from hlx._operations.extremes import amax as amax
from hlx._operations.extremes import amin as amin
from hlx._operations.extremes import aminmax as aminmax
from hlx._operations.composed import angle as angle
from hlx._operations.reductions import any as any
from hlx._operations.making import arange as arange
from hlx._operations.functions import acos as arccos
from hlx._operations.composed import acosh as arccosh
from hlx._operations.functions import asin as arcsin
from hlx._operations.composed import asinh as arcsinh
from hlx._operations.functions import atan as arctan
from hlx._operations.arithmetic import atan2 as arctan2
from hlx._operations.composed import atanh as arctanh
from hlx._operations.extremes import argmax as argmax
from hlx._operations.extremes import argmin as argmin
from hlx._operations.extremes import argsort as argsort
from hlx._operations.indexing import argwhere as argwhere
from hlx._exchange import as_tensor as as_tensor
from hlx._exchange import asarray as asarray
from hlx._operations.functions import asin as asin
from hlx._operations.composed import asinh as asinh
from hlx._operations.functions import atan as atan
from hlx._operations.arithmetic import atan2 as atan2
from hlx._operations.composed import atanh as atanh
from hlx._operations.parts import atleast_1d as atleast_1d
from hlx._operations.parts import atleast_2d as atleast_2d
from hlx._operations.parts import atleast_3d as atleast_3d
from hlx import autograd as autograd
from hlx.nn._functional.images import avg_pool1d as avg_pool1d
from hlx._operations.products import baddbmm as baddbmm
from hlx._operations.layers import batch_norm as batch_norm
from hlx._operations.random import bernoulli as bernoulli
from hlx.nn._functional.norms import bilinear as bilinear
from hlx._operations.diagonals import bincount as bincount
from hlx._operations.comparisons import bitwise_and as bitwise_and
from hlx._operations.comparisons import bitwise_left_shift as bitwise_left_shift
from hlx._operations.functions import bitwise_not as bitwise_not
from hlx._operations.comparisons import bitwise_or as bitwise_or
from hlx._operations.comparisons import bitwise_right_shift as bitwise_right_shift
from hlx._operations.comparisons import bitwise_xor as bitwise_xor
from hlx._operations.joining import block_diag as block_diag
from hlx._operations.products import bmm as bmm
from hlx._operations.movement import broadcast_shapes as broadcast_shapes
from hlx._operations.movement import broadcast_tensors as broadcast_tensors
from hlx._operations.movement import broadcast_to as broadcast_to
from hlx._operations.extremes import bucketize as bucketize
from hlx._operations.facts import can_cast as can_cast
from hlx._operations.parts import cartesian_prod as cartesian_prod
from hlx._operations.joining import cat as cat
from hlx._operations.products import cdist as cdist
from hlx._operations.functions import ceil as ceil
from hlx.nn._functional.activations import celu as celu
from hlx._operations.products import chain_matmul as chain_matmul
from hlx.nn._functional.resizing import channel_shuffle as channel_shuffle
from hlx._operations.parts import chunk as chunk
from hlx._operations.arithmetic import clamp as clamp
from hlx._operations.arithmetic import clamp_max as clamp_max
from hlx._operations.arithmetic import clamp_min as clamp_min
from hlx._operations.arithmetic import clamp as clip
from hlx._operations.conversions import clone as clone
from hlx.contracts import collapse as collapse
from hlx._operations.joining import column_stack as column_stack
from hlx._operations.statistics import combinations as combinations
from hlx._compile import compile as compile
from hlx import compute as compute
from hlx._operations.joining import cat as concat
from hlx._operations.joining import concatenate as concatenate
from hlx._operations.composed import real as conj
from hlx._operations.composed import real as conj_physical
from hlx._operations.parts import constant_pad_nd as constant_pad_nd
from hlx import contracts as contracts
from hlx.nn._functional.images import conv1d as conv1d
from hlx.nn._functional.images import conv2d as conv2d
from hlx.nn._functional.images import conv_transpose1d as conv_transpose1d
from hlx.nn._functional.images import conv_transpose2d as conv_transpose2d
from hlx._operations.pairs import copysign as copysign
from hlx._operations.statistics import corrcoef as corrcoef
from hlx._operations.functions import cos as cos
from hlx._operations.functions import cosh as cosh
from hlx.nn._functional.vectors import cosine_similarity as cosine_similarity
from hlx._operations.reductions import count_nonzero as count_nonzero
from hlx._operations.statistics import cov as cov
from hlx._operations.products import cross as cross
from hlx._operations.running import cummax as cummax
from hlx._operations.running import cummin as cummin
from hlx._operations.reductions import cumprod as cumprod
from hlx._operations.reductions import cumsum as cumsum
from hlx._operations.statistics import cumulative_trapezoid as cumulative_trapezoid
from hlx._operations.composed import deg2rad as deg2rad
from hlx._operations.conversions import detach as detach
from hlx._hlx import device as device
from hlx._operations.diagonals import diag as diag
from hlx._operations.diagonals import diag_embed as diag_embed
from hlx._operations.diagonals import diagflat as diagflat
from hlx._operations.movement import diagonal as diagonal
from hlx._operations.writing import diagonal_scatter as diagonal_scatter
from hlx._operations.reductions import diff as diff
from hlx._hlx import digest as digest
from hlx._operations.pairs import dist as dist
from hlx._operations.arithmetic import div as div
from hlx._operations.arithmetic import div as divide
from hlx._operations.products import dot as dot
from hlx._operations.layers import dropout as dropout
from hlx._operations.parts import dsplit as dsplit
from hlx._operations.joining import dstack as dstack
from hlx._hlx import dtype as dtype
from hlx._operations.products import einsum as einsum
from hlx._operations.layers import embedding as embedding
from hlx._operations.making import empty as empty
from hlx._operations.making import empty_like as empty_like
from hlx._modes import enable_grad as enable_grad
from hlx._operations.comparisons import eq as eq
from hlx._operations.comparisons import equal as equal
from hlx._operations.functions import erf as erf
from hlx._operations.composed import erfc as erfc
from hlx import errors as errors
from hlx._operations.functions import exp as exp
from hlx._operations.functions import exp2 as exp2
from hlx._operations.functions import expm1 as expm1
from hlx._operations.making import eye as eye
from hlx._operations.writing import fill as fill
from hlx._operations.in_place import fill_ as fill_
from hlx._operations.facts import finfo as finfo
from hlx._operations.functions import trunc as fix
from hlx._operations.movement import flatten as flatten
from hlx._operations.movement import flip as flip
from hlx._operations.movement import fliplr as fliplr
from hlx._operations.movement import flipud as flipud
from hlx._operations.functions import floor as floor
from hlx._operations.arithmetic import floor_divide as floor_divide
from hlx._operations.arithmetic import fmax as fmax
from hlx._operations.arithmetic import fmin as fmin
from hlx._operations.arithmetic import fmod as fmod
from hlx._operations.composed import frac as frac
from hlx._hlx import from_dlpack as from_dlpack
from hlx._exchange import from_numpy as from_numpy
from hlx._exchange import from_torch as from_torch
from hlx._operations.making import full as full
from hlx._operations.making import full_like as full_like
from hlx._operations.indexing import gather as gather
from hlx._operations.comparisons import ge as ge
from hlx._operations.products import outer as ger
from hlx._hlx import get_default_device as get_default_device
from hlx._modes import get_default_dtype as get_default_dtype
from hlx._operations.comparisons import gt as greater
from hlx._operations.comparisons import ge as greater_equal
from hlx.nn._functional.norms import group_norm as group_norm
from hlx._operations.comparisons import gt as gt
from hlx.nn._functional.activations import hardshrink as hardshrink
from hlx._operations.pairs import heaviside as heaviside
from hlx._operations.statistics import histc as histc
from hlx._operations.parts import hsplit as hsplit
from hlx._operations.joining import hstack as hstack
from hlx._operations.pairs import hypot as hypot
from hlx._operations.facts import iinfo as iinfo
from hlx._operations.indexing import index_add as index_add
from hlx._operations.indexing import index_copy as index_copy
from hlx._operations.indexing import index_fill as index_fill
from hlx._operations.indexing import index_put as index_put
from hlx._operations.indexing import index_select as index_select
from hlx._modes import inference_mode as inference_mode
from hlx._hlx import initial_seed as initial_seed
from hlx._operations.products import inner as inner
from hlx._operations.layers import instance_norm as instance_norm
from hlx._operations.facts import is_complex as is_complex
from hlx._operations.facts import is_floating_point as is_floating_point
from hlx._hlx import is_grad_enabled as is_grad_enabled
from hlx._operations.facts import is_nonzero as is_nonzero
from hlx._operations.facts import is_same_size as is_same_size
from hlx._operations.facts import is_signed as is_signed
from hlx._operations.facts import is_tensor as is_tensor
from hlx._operations.comparisons import isclose as isclose
from hlx._operations.functions import isfinite as isfinite
from hlx._operations.comparisons import isin as isin
from hlx._operations.comparisons import isinf as isinf
from hlx._operations.functions import isnan as isnan
from hlx._operations.comparisons import isneginf as isneginf
from hlx._operations.comparisons import isposinf as isposinf
from hlx._operations.comparisons import isreal as isreal
from hlx._operations.products import kron as kron
from hlx._operations.extremes import kthvalue as kthvalue
from hlx.nn._functional.norms import layer_norm as layer_norm
from hlx._operations.pairs import ldexp as ldexp
from hlx._operations.comparisons import le as le
from hlx._operations.arithmetic import lerp as lerp
from hlx._operations.comparisons import lt as less
from hlx._operations.comparisons import le as less_equal
from hlx import linalg as linalg
from hlx._operations.making import linspace as linspace
from hlx._exchange import load_file as load_file
from hlx._operations.functions import log as log
from hlx._operations.functions import log10 as log10
from hlx._operations.functions import log1p as log1p
from hlx._operations.functions import log2 as log2
from hlx._operations.composed import log_softmax as log_softmax
from hlx._operations.pairs import logaddexp as logaddexp
from hlx._operations.pairs import logaddexp2 as logaddexp2
from hlx._operations.running import logcumsumexp as logcumsumexp
from hlx._operations.comparisons import logical_and as logical_and
from hlx._operations.functions import logical_not as logical_not
from hlx._operations.comparisons import logical_or as logical_or
from hlx._operations.comparisons import logical_xor as logical_xor
from hlx._operations.composed import logit as logit
from hlx._operations.making import logspace as logspace
from hlx._operations.reductions import logsumexp as logsumexp
from hlx._operations.comparisons import lt as lt
from hlx._hlx import manual_seed as manual_seed
from hlx._operations.indexing import masked_fill as masked_fill
from hlx._operations.indexing import masked_scatter as masked_scatter
from hlx._operations.indexing import masked_select as masked_select
from hlx._operations.products import matmul as matmul
from hlx._operations.extremes import max as max
from hlx.nn._functional.images import max_pool1d as max_pool1d
from hlx.nn._functional.images import max_pool2d as max_pool2d
from hlx._operations.arithmetic import maximum as maximum
from hlx._operations.reductions import mean as mean
from hlx._operations.extremes import median as median
from hlx._operations.parts import meshgrid as meshgrid
from hlx._operations.extremes import min as min
from hlx._operations.arithmetic import minimum as minimum
from hlx._operations.products import mm as mm
from hlx._operations.movement import movedim as moveaxis
from hlx._operations.movement import movedim as movedim
from hlx._operations.extremes import msort as msort
from hlx._operations.arithmetic import mul as mul
from hlx._operations.random import multinomial as multinomial
from hlx._operations.arithmetic import mul as multiply
from hlx._operations.products import mv as mv
from hlx._operations.composed import nan_to_num as nan_to_num
from hlx._operations.reductions import nanmean as nanmean
from hlx._operations.quantiles import nanmedian as nanmedian
from hlx._operations.quantiles import nanquantile as nanquantile
from hlx._operations.reductions import nansum as nansum
from hlx._operations.movement import narrow as narrow
from hlx._operations.comparisons import ne as ne
from hlx._operations.functions import neg as neg
from hlx._operations.functions import neg as negative
from hlx import nn as nn
from hlx._modes import no_grad as no_grad
from hlx._operations.indexing import nonzero as nonzero
from hlx._operations.reductions import norm as norm
from hlx._operations.random import normal as normal
from hlx._operations.comparisons import ne as not_equal
from hlx._hlx import note_fork as note_fork
from hlx._operations.facts import numel as numel
from hlx._operations.making import ones as ones
from hlx._operations.making import ones_like as ones_like
from hlx._operations.products import outer as outer
from hlx.nn._functional.vectors import pairwise_distance as pairwise_distance
from hlx._operations.movement import permute as permute
from hlx.nn._functional.resizing import pixel_shuffle as pixel_shuffle
from hlx.nn._functional.resizing import pixel_unshuffle as pixel_unshuffle
from hlx._operations.composed import positive as positive
from hlx._operations.arithmetic import pow as pow
from hlx.nn._functional.activations import prelu as prelu
from hlx._operations.reductions import prod as prod
from hlx._operations.facts import promote_types as promote_types
from hlx._operations.writing import put as put
from hlx._operations.quantiles import quantile as quantile
from hlx._operations.composed import rad2deg as rad2deg
from hlx._operations.random import rand as rand
from hlx._operations.random import rand_like as rand_like
from hlx._operations.random import randint as randint
from hlx._operations.random import randint_like as randint_like
from hlx._operations.random import randn as randn
from hlx._operations.random import randn_like as randn_like
from hlx._operations.random import randperm as randperm
from hlx._operations.movement import ravel as ravel
from hlx._operations.composed import real as real
from hlx._operations.functions import reciprocal as reciprocal
from hlx._operations.functions import relu as relu
from hlx._operations.arithmetic import remainder as remainder
from hlx._operations.reductions import renorm as renorm
from hlx._operations.parts import repeat_interleave as repeat_interleave
from hlx._operations.movement import reshape as reshape
from hlx.contracts import resolve as resolve
from hlx._operations.composed import real as resolve_conj
from hlx._operations.composed import real as resolve_neg
from hlx._operations.facts import result_type as result_type
from hlx import return_types as return_types
from hlx.nn._functional.norms import rms_norm as rms_norm
from hlx._operations.parts import roll as roll
from hlx._operations.movement import rot90 as rot90
from hlx._operations.composed import round as round
from hlx._operations.joining import vstack as row_stack
from hlx.nn._functional.activations import rrelu as rrelu
from hlx._operations.functions import rsqrt as rsqrt
from hlx._operations.arithmetic import rsub as rsub
from hlx._exchange import save_file as save_file
from hlx._operations.making import scalar_tensor as scalar_tensor
from hlx._operations.indexing import scatter as scatter
from hlx._operations.indexing import scatter_add as scatter_add
from hlx._operations.grouping import scatter_reduce as scatter_reduce
from hlx._operations.extremes import searchsorted as searchsorted
from hlx._operations.movement import select as select
from hlx._operations.writing import select_scatter as select_scatter
from hlx.nn._functional.activations import selu as selu
from hlx._hlx import set_default_device as set_default_device
from hlx._modes import set_default_dtype as set_default_dtype
from hlx._modes import set_grad_enabled as set_grad_enabled
from hlx._operations.composed import sgn as sgn
from hlx._operations.functions import sigmoid as sigmoid
from hlx._operations.functions import sign as sign
from hlx._operations.pairs import signbit as signbit
from hlx._operations.functions import sin as sin
from hlx._operations.composed import sinc as sinc
from hlx._operations.functions import sinh as sinh
from hlx._operations.writing import slice_scatter as slice_scatter
from hlx._operations.composed import softmax as softmax
from hlx._operations.extremes import sort as sort
from hlx._operations.parts import split as split
from hlx._operations.parts import split_with_sizes as split_with_sizes
from hlx._operations.functions import sqrt as sqrt
from hlx._operations.functions import square as square
from hlx._operations.movement import squeeze as squeeze
from hlx._operations.joining import stack as stack
from hlx._operations.reductions import std as std
from hlx._operations.reductions import std_mean as std_mean
from hlx._operations.arithmetic import sub as sub
from hlx._operations.arithmetic import sub as subtract
from hlx._operations.reductions import sum as sum
from hlx._operations.movement import transpose as swapaxes
from hlx._operations.movement import transpose as swapdims
from hlx._operations.movement import t as t
from hlx._operations.indexing import take as take
from hlx._operations.indexing import take_along_dim as take_along_dim
from hlx._operations.functions import tan as tan
from hlx._operations.functions import tanh as tanh
from hlx._exchange import tensor as tensor
from hlx._operations.parts import tensor_split as tensor_split
from hlx._operations.products import tensordot as tensordot
from hlx._operations.composed import threshold as threshold
from hlx._operations.parts import tile as tile
from hlx._operations.extremes import topk as topk
from hlx._operations.reductions import trace as trace
from hlx._operations.movement import transpose as transpose
from hlx._operations.statistics import trapezoid as trapezoid
from hlx._operations.statistics import trapezoid as trapz
from hlx._operations.diagonals import tril as tril
from hlx._operations.diagonals import tril_indices as tril_indices
from hlx._operations.diagonals import triu as triu
from hlx._operations.diagonals import triu_indices as triu_indices
from hlx._operations.arithmetic import true_divide as true_divide
from hlx._operations.functions import trunc as trunc
from hlx._operations.movement import unbind as unbind
from hlx._operations.movement import unflatten as unflatten
from hlx._operations.different import unique as unique
from hlx._operations.different import unique_consecutive as unique_consecutive
from hlx._operations.writing import unravel_index as unravel_index
from hlx._operations.parts import chunk as unsafe_chunk
from hlx._operations.parts import split as unsafe_split
from hlx._operations.movement import unsqueeze as unsqueeze
from hlx._operations.reductions import var as var
from hlx._operations.reductions import var_mean as var_mean
from hlx._operations.products import dot as vdot
from hlx._operations.parts import vsplit as vsplit
from hlx._operations.joining import vstack as vstack
from hlx import vulkan as vulkan
from hlx._operations.comparisons import where as where
from hlx._operations.pairs import xlogy as xlogy
from hlx._operations.in_place import zero_ as zero_
from hlx._operations.making import zeros as zeros
from hlx._operations.making import zeros_like as zeros_like

__version__: builtins.str
bfloat16: dtype
bool: dtype
double: dtype
e: builtins.float
float: dtype
float16: dtype
float32: dtype
float64: dtype
half: dtype
inf: builtins.float
int: dtype
int16: dtype
int32: dtype
int64: dtype
int8: dtype
long: dtype
nan: builtins.float
newaxis: None
pi: builtins.float
short: dtype
uint32: dtype
uint8: dtype

def abs_(input: Tensor) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def clamp_(input: Tensor, min: _Operand | None = None, max: _Operand | None = None) -> Tensor: ...
def clamp_max_(input: Tensor, max: _Operand) -> Tensor: ...
def clamp_min_(input: Tensor, min: _Operand) -> Tensor: ...
def clip_(input: Tensor, min: _Operand | None = None, max: _Operand | None = None) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def index_put_(
    input: Tensor, indices: collections.abc.Sequence[Tensor | None], values: Tensor, accumulate: builtins.bool = False
) -> Tensor: ...
def ldexp_(input: Tensor, other: Tensor) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor: ...
def nan_to_num_(
    input: Tensor,
    nan: builtins.float | None = None,
    posinf: builtins.float | None = None,
    neginf: builtins.float | None = None,
) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
def round_(input: Tensor, *, decimals: builtins.int = 0) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
def xlogy_(input: _Operand, other: _Operand) -> Tensor: ...
