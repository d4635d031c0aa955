"""Other programs' side of the product of results.rs: C = A B in f32, each run launched and waited for.

  python3 gemm.py torch|torch-tf32|cublas|numpy|clblast [--device cuda|cpu] [--size 1024]

Prints `ready DESCRIPTION`, then answers each line: `latencies N` and `clock N` with `ok ms=A,B,..`, N runs by the host's
clock and by the device's (CUDA alone); `busy SECONDS` with `ok ms=M`, one of many runs behind each other; `digest` with
`ok digest=SHA256` of C; or `error MESSAGE`. A side that cannot run here says why on standard error, with status 1.

The operands are those of benches/src/maker.rs, bit for bit. cublas calls cublasSgemm itself, in the library that PyTorch
has loaded; clblast calls CLBlast on the first device of OpenCL.
"""

import argparse
import array
import ctypes
import hashlib
import sys
import time

WARM_UP_SECONDS = 0.4


def operand(size):
    """size x size values between -1 and 1, rounded to f32 as benches/src/maker.rs rounds them."""

    def scramble(x):
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        return float(x ^ (x >> 16))

    whole = array.array("f", map(scramble, range(size * size)))
    return array.array("f", (value / 2**31 - 1.0 for value in whole))


class Torch:
    def __init__(self, device, size, tf32=False):
        import torch

        self.torch, self.cuda = torch, device == "cuda"
        if self.cuda and not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no CUDA device")
        if tf32 and not self.cuda:
            raise RuntimeError("TF32 is for CUDA devices")
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        self.size = size
        bytes_ = bytearray(operand(size).tobytes())
        self.a = torch.frombuffer(bytes_, dtype=torch.float32).view(size, size).to(device)
        self.b, self.c = self.a.clone(), torch.empty_like(self.a)
        where = torch.cuda.get_device_name() if self.cuda else f"{torch.get_num_threads()} threads"
        self.name = f"PyTorch {torch.__version__}{', TF32' if tf32 else ''}, {where}"

    def run(self):
        self.torch.mm(self.a, self.b, out=self.c)

    def wait(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def clock(self, count):
        if not self.cuda:
            raise RuntimeError("no clock of the device")
        event = lambda: self.torch.cuda.Event(enable_timing=True)  # noqa: E731
        pairs = [(event(), event()) for _ in range(count)]
        for start, end in pairs:
            start.record()
            self.run()
            end.record()
        self.wait()
        return [start.elapsed_time(end) for start, end in pairs]

    def result(self):
        self.wait()
        return bytes(self.c.cpu().contiguous().view(self.torch.uint8).flatten().tolist())


class Cublas(Torch):
    def __init__(self, device, size):
        super().__init__(device, size)
        if not self.cuda:
            raise RuntimeError("cuBLAS is for CUDA devices")
        super().run()
        self.handle = ctypes.c_void_p(self.torch.cuda.current_blas_handle())
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "/libcublas.so" in line}
        if not paths:
            raise RuntimeError("PyTorch has loaded no libcublas.so")
        self.library = ctypes.CDLL(min(paths))
        version = ctypes.c_int()
        self.library.cublasGetVersion_v2(self.handle, ctypes.byref(version))
        self.name = f"cuBLAS {version.value}, cublasSgemm, {self.torch.cuda.get_device_name()}"
        self.one, self.zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def run(self):
        # Columns first: the transposed product of B and A, whose memory is that of A B in rows.
        n, pointer = self.size, lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        status = self.library.cublasSgemm_v2(
            self.handle, 0, 0, n, n, n, ctypes.byref(self.one), pointer(self.b), n,
            pointer(self.a), n, ctypes.byref(self.zero), pointer(self.c), n,
        )
        if status:
            raise RuntimeError(f"cublasSgemm: status {status}")


class Numpy:
    def __init__(self, device, size):
        import numpy

        if device != "cpu":
            raise RuntimeError("NumPy is for the CPU")
        self.numpy = numpy
        self.a = numpy.array(operand(size), dtype=numpy.float32).reshape(size, size)
        self.b, self.c = self.a.copy(), numpy.empty_like(self.a)
        blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        self.name = f"NumPy {numpy.__version__}, {blas['name']} {blas['version']}"

    def run(self):
        self.numpy.matmul(self.a, self.b, out=self.c)

    def wait(self):
        pass

    def clock(self, count):
        raise RuntimeError("no clock of the device")

    def result(self):
        return self.c.tobytes()


class Clblast:
    """CLBlast through OpenCL's C interface."""

    def __init__(self, device, size):
        self.cl, self.blas = ctypes.CDLL("libOpenCL.so.1"), ctypes.CDLL("libclblast.so.1")
        self.size, status = size, ctypes.c_int()
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        found = self.devices(1 << (2 if device == "cuda" else 1)) or self.devices(0xFFFFFFFF)
        if not found:
            raise RuntimeError("OpenCL has no device")
        self.device = found[0]
        self.context = ctypes.c_void_p(
            self.cl.clCreateContext(None, 1, ctypes.byref(self.device), None, None, ctypes.byref(status))
        )
        self.queue = ctypes.c_void_p(
            self.cl.clCreateCommandQueue(self.context, self.device, ctypes.c_ulong(0), ctypes.byref(status))
        )
        values = operand(size).tobytes()
        self.n_bytes = len(values)
        self.a, self.b, self.c = (self.buffer(values) for _ in range(3))
        self.name = f"CLBlast, OpenCL, {self.text(0x102B)}, {self.text(0x102F)}"

    def devices(self, kind):
        count = ctypes.c_uint()
        platforms = (ctypes.c_void_p * 8)()
        if self.cl.clGetPlatformIDs(8, platforms, ctypes.byref(count)):
            raise RuntimeError("OpenCL has no platform")
        found, devices = [], (ctypes.c_void_p * 8)()
        for platform in platforms[: count.value]:
            number = ctypes.c_uint()
            kind_ = ctypes.c_ulong(kind)
            if not self.cl.clGetDeviceIDs(ctypes.c_void_p(platform), kind_, 8, devices, ctypes.byref(number)):
                found += [ctypes.c_void_p(device) for device in devices[: number.value]]
        return found

    def text(self, key):
        words = ctypes.create_string_buffer(256)
        self.cl.clGetDeviceInfo(self.device, key, ctypes.c_size_t(256), words, None)
        return words.value.decode(errors="replace").replace("=", " ")

    def buffer(self, values):
        status = ctypes.c_int()
        # Read and written, copied from the host.
        made = self.cl.clCreateBuffer(
            self.context, ctypes.c_ulong(1 | 32), ctypes.c_size_t(len(values)), values, ctypes.byref(status)
        )
        if status.value:
            raise RuntimeError(f"clCreateBuffer: status {status.value}")
        return ctypes.c_void_p(made)

    def run(self):
        n, size, float_ = self.size, ctypes.c_size_t, ctypes.c_float
        rows, plain = 101, 111
        status = self.blas.CLBlastSgemm(
            rows, plain, plain, size(n), size(n), size(n), float_(1.0), self.a, size(0), size(n),
            self.b, size(0), size(n), float_(0.0), self.c, size(0), size(n), ctypes.byref(self.queue), None,
        )
        if status:
            raise RuntimeError(f"CLBlastSgemm: status {status}")

    def wait(self):
        self.cl.clFinish(self.queue)

    def clock(self, count):
        raise RuntimeError("no clock of the device")

    def result(self):
        words = ctypes.create_string_buffer(self.n_bytes)
        size = ctypes.c_size_t
        self.cl.clEnqueueReadBuffer(self.queue, self.c, 1, size(0), size(self.n_bytes), words, 0, None, None)
        return words.raw


def timed(side, count):
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_UP_SECONDS:
        side.run()
        side.wait()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        side.run()
        side.wait()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def busy(side, seconds):
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < seconds:
        for _ in range(8):
            side.run()
        side.wait()
        count += 8
    return (time.perf_counter() - start) * 1e3 / count


def answer(side, line):
    verb, _, number = line.partition(" ")
    if verb == "latencies":
        return "ms=" + ",".join(f"{ms:.6f}" for ms in timed(side, int(number)))
    if verb == "clock":
        return "ms=" + ",".join(f"{ms:.6f}" for ms in side.clock(int(number)))
    if verb == "busy":
        return f"ms={busy(side, float(number)):.6f}"
    if verb == "digest":
        side.run()
        side.wait()
        return f"digest={hashlib.sha256(side.result()).hexdigest()}"
    raise ValueError(f"`{line}` is no request")


SIDES = {
    "torch": Torch,
    "torch-tf32": lambda device, size: Torch(device, size, tf32=True),
    "cublas": Cublas,
    "numpy": Numpy,
    "clblast": Clblast,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=list(SIDES))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--size", type=int, default=1024)
    given = parser.parse_args()
    try:
        side = SIDES[given.side](given.device, given.size)
    except Exception as error:  # noqa: BLE001 (said in one line)
        sys.exit(f"{given.side}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    print(f"ready {side.name}", flush=True)
    for line in sys.stdin:
        try:
            print(f"ok {answer(side, line.strip())}", flush=True)
        except Exception as error:  # noqa: BLE001 (the next request may succeed)
            print(f"error {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
