"""The few functions of libbpf that Hocket needs, through ctypes: loading objects, and finding BPF maps by
name. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from hocket_agent.errors import InputError

# The interface of `libbpf.so.1` (libbpf 1.0, 2022) is stable.
_SONAME = "libbpf.so.1"
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "bpf_object__open_file": (c_void_p, (c_char_p, c_void_p)),
    "bpf_object__load": (c_int, (c_void_p,)),
    "bpf_object__close": (None, (c_void_p,)),
    "bpf_object__find_map_by_name": (c_void_p, (c_void_p, c_char_p)),
    "bpf_object__find_map_fd_by_name": (c_int, (c_void_p, c_char_p)),
    "bpf_map__attach_struct_ops": (c_void_p, (c_void_p,)),
    "bpf_link__destroy": (c_int, (c_void_p,)),
    "bpf_link__disconnect": (None, (c_void_p,)),
    "bpf_map_get_next_id": (c_int, (c_uint32, POINTER(c_uint32))),
    "bpf_map_get_fd_by_id": (c_int, (c_uint32,)),
    "bpf_obj_get_info_by_fd": (c_int, (c_int, c_void_p, POINTER(c_uint32))),
    "bpf_map_lookup_elem": (c_int, (c_int, c_void_p, c_void_p)),
    "bpf_map_update_elem": (c_int, (c_int, c_void_p, c_void_p, c_uint64)),
    "bpf_map_delete_elem": (c_int, (c_int, c_void_p)),
}
# The last argument is a va_list, which x86-64 and AArch64 pass as a pointer.
_PRINT = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
# Of `enum libbpf_print_level`: LIBBPF_WARN.
_WARNING = 0
# `struct bpf_map_info` of linux/bpf.h as far as the name: type, id, key_size, value_size, max_entries,
# map_flags, name.
_MAP_INFO = struct.Struct("=6I16s")


@cache
def library() -> ctypes.CDLL:
    """libbpf with typed functions. Raises `InputError` if it is not installed."""
    try:
        found = ctypes.CDLL(_SONAME, use_errno=True)
    except OSError:
        raise InputError(f"{_SONAME} is not installed; libbpf 1.0 or later (Debian: libbpf1)") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def _checked(status: int) -> int:
    """Returns the status of a libbpf call; raises `OSError` if it is an error, which is a negated errno."""
    if status < 0:
        raise OSError(-status, os.strerror(-status))
    return status


@contextmanager
def warnings() -> Iterator[list[str]]:
    """Collects the lines that libbpf and the kernel's verifier print in the context, instead of showing them
    on stderr.
    """
    lines: list[str] = []
    libc = ctypes.CDLL(None)
    buffer = ctypes.create_string_buffer(1 << 16)

    def keep(level: int, pattern: bytes, arguments: int) -> int:
        if level == _WARNING:
            libc.vsnprintf(buffer, len(buffer), c_char_p(pattern), c_void_p(arguments))
            lines.extend(buffer.value.decode(errors="replace").splitlines())
        return 0

    libc.vsnprintf.argtypes = (c_char_p, ctypes.c_size_t, c_char_p, c_void_p)
    set_print = library().libbpf_set_print
    set_print.restype, set_print.argtypes = c_void_p, (c_void_p,)
    # In a variable, since ctypes does not keep a callback alive for C.
    callback = _PRINT(keep)
    before = set_print(ctypes.cast(callback, c_void_p))
    try:
        yield lines
    finally:
        set_print(before)


class Loaded:
    """A BPF object whose maps and programs are in the kernel. They stay there until `loaded` exits, or for as
    long as the kernel uses them.
    """

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def map_fd(self, name: str) -> int:
        """The file descriptor of a map of the object; it is closed with the object."""
        return _checked(library().bpf_object__find_map_fd_by_name(self._pointer, name.encode()))

    @contextmanager
    def registered(self, name: str) -> Iterator[None]:
        """Registers a struct_ops map. The registration outlives this process, unless the body raises."""
        bpf = library()
        link = bpf.bpf_map__attach_struct_ops(bpf.bpf_object__find_map_by_name(self._pointer, name.encode()))
        if not link:
            _checked(-ctypes.get_errno())
        try:
            yield
            bpf.bpf_link__disconnect(link)
        finally:
            # Destroying a disconnected link only frees its memory; the registration stays.
            bpf.bpf_link__destroy(link)


@contextmanager
def loaded(path: Path) -> Iterator[Loaded]:
    """Loads a BPF object file; raises `OSError` if the kernel or libbpf rejects it."""
    bpf = library()
    pointer = bpf.bpf_object__open_file(os.fsencode(path), None)
    if not pointer:
        _checked(-ctypes.get_errno())
    try:
        _checked(bpf.bpf_object__load(pointer))
        yield Loaded(pointer)
    finally:
        bpf.bpf_object__close(pointer)


def _maps() -> Iterator[tuple[str, int]]:
    """Name and file descriptor of every BPF map of the machine, in ascending order of id. Each descriptor is
    closed when the iterator advances. Raises `OSError` without CAP_SYS_ADMIN.
    """
    bpf = library()
    number = c_uint32(0)
    while (status := bpf.bpf_map_get_next_id(number, byref(number))) == 0:
        try:
            fd = _checked(bpf.bpf_map_get_fd_by_id(number))
        except FileNotFoundError:
            continue  # removed since its id was returned
        try:
            yield _map_name(fd), fd
        finally:
            os.close(fd)
    # ENOENT marks the end of the list.
    if status != -errno.ENOENT:
        _checked(status)


def _map_name(fd: int) -> str:
    info = ctypes.create_string_buffer(_MAP_INFO.size)
    length = c_uint32(len(info))
    _checked(library().bpf_obj_get_info_by_fd(fd, info, byref(length)))
    name: bytes = _MAP_INFO.unpack(info.raw)[-1]
    return name.rstrip(b"\0").decode()


@contextmanager
def open_map(name: str) -> Iterator[int]:
    """A file descriptor of the newest BPF map of this name. Scans all maps of the machine.

    Raises `InputError` if there is none, or if this process lacks the privilege to list maps.
    """
    fd = _newest(name)
    if fd is None:
        raise InputError(f"{name}: no BPF map has this name, so the registered control is not Hocket's")
    try:
        yield fd
    finally:
        os.close(fd)


def _newest(name: str) -> int | None:
    found = None
    try:
        for each, fd in _maps():
            # Ids ascend, so the last map is the newest. Sockets keep those of an unloaded program alive.
            if each == name:
                if found is not None:
                    os.close(found)
                # `_maps` closes its own descriptor.
                found = os.dup(fd)
    except PermissionError:
        raise InputError(f"{name}: finding a BPF map requires root or CAP_SYS_ADMIN") from None
    return found


def read(fd: int, key: int, layout: struct.Struct) -> tuple[int, ...] | None:
    """The map's value for `key`, or None if there is none."""
    value = ctypes.create_string_buffer(layout.size)
    with suppress(FileNotFoundError):
        _checked(library().bpf_map_lookup_elem(fd, byref(c_uint32(key)), value))
        return layout.unpack(value.raw)
    return None


def write(fd: int, key: int, value: bytes) -> None:
    """Stores a value in a map; in a map of sockets, the key is the socket's file descriptor."""
    _checked(library().bpf_map_update_elem(fd, byref(c_uint32(key)), value, 0))


def delete(fd: int, key: int) -> None:
    """Deletes a value from a map; deleting a struct_ops unregisters it."""
    _checked(library().bpf_map_delete_elem(fd, byref(c_uint32(key))))
