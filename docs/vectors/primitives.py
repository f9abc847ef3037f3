"""BLAKE3, XXH3 and Argon2id in plain Python, for read.py: slow, and without wiping anything."""
import hashlib
import struct

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


# BLAKE3 (its paper, section 2): hash, keyed mode, derive_key mode.

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
START, END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64


def turn(word, bits):
    return (word >> bits | word << (32 - bits)) & M32


def compress(chain, block, counter, flags):
    words = struct.unpack("<16I", block.ljust(64, b"\0"))
    v = list(chain) + list(IV[:4]) + [counter & M32, counter >> 32, len(block), flags]
    for _ in range(7):
        for number, (a, b, c, d) in enumerate(COLUMNS + DIAGONALS):
            for word, first, second in ((words[2 * number], 16, 12), (words[2 * number + 1], 8, 7)):
                v[a] = (v[a] + v[b] + word) & M32
                v[d] = turn(v[d] ^ v[a], first)
                v[c] = (v[c] + v[d]) & M32
                v[b] = turn(v[b] ^ v[c], second)
        words = [words[at] for at in PERMUTATION]
    return [v[at] ^ v[at + 8] for at in range(8)]


def blake3(data, key=IV, mode=0):
    """The output of 32 bytes."""

    def chunk(number, bytes_, root):
        chain, blocks = key, [bytes_[at : at + 64] for at in range(0, len(bytes_), 64)] or [b""]
        for at, block in enumerate(blocks):
            last = at == len(blocks) - 1
            flags = mode | (START if at == 0 else 0) | (END if last else 0) | (root if last else 0)
            chain = compress(chain, block, number, flags)
        return chain

    def tree(first, bytes_, root):
        if len(bytes_) <= 1024:
            return chunk(first, bytes_, root)
        left = 1024
        while 2 * left < len(bytes_):
            left *= 2
        sides = tree(first, bytes_[:left], 0) + tree(first + left // 1024, bytes_[left:], 0)
        return compress(key, struct.pack("<16I", *sides), 0, mode | PARENT | root)

    return struct.pack("<8I", *tree(0, data, ROOT))


def mac(key, data):
    return blake3(data, struct.unpack("<8I", key), KEYED)


def kdf(context, data):
    key = blake3(context.encode(), IV, CONTEXT)
    return blake3(data, struct.unpack("<8I", key), MATERIAL)


def list_of(*values):
    return b"".join(struct.pack("<Q", len(value)) + value for value in values)


# XXH3 with 128 bits (the specification in xxHash's doc folder), of more than 240 bytes, without a seed.

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def xxh3_128(data):
    words = lambda bytes_, at: struct.unpack_from("<8Q", bytes_, at)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def stripe(at, secret_at):
        for i, (word, key) in enumerate(zip(words(data, at), words(SECRET, secret_at))):
            mixed = word ^ key
            acc[i ^ 1] = (acc[i ^ 1] + word) & M64
            acc[i] = (acc[i] + (mixed & M32) * (mixed >> 32)) & M64

    for number in range((len(data) - 1) // 64):
        stripe(64 * number, 8 * (number % 16))
        if number % 16 == 15:
            acc[:] = [((a ^ a >> 47 ^ key) * P32[0]) & M64 for a, key in zip(acc, words(SECRET, 128))]
    stripe(len(data) - 64, 121)

    def merge(secret_at, start):
        keys = words(SECRET, secret_at)
        for i in range(0, 8, 2):
            product = (acc[i] ^ keys[i]) * (acc[i + 1] ^ keys[i + 1])
            start = (start + (product & M64 ^ product >> 64)) & M64
        start = (start ^ start >> 37) * 0x165667919E3779F9 & M64
        return start ^ start >> 32

    low = merge(11, len(data) * P64[0] & M64)
    high = merge(117, ~(len(data) * P64[1]) & M64)
    return struct.pack("<QQ", low, high)


# Argon2id (RFC 9106), version 0x13.


def argon2id(passphrase, salt, memory, passes, lanes, length=32):
    def long_hash(data, out):
        data = struct.pack("<I", out) + data
        if out <= 64:
            return hashlib.blake2b(data, digest_size=out).digest()
        block = hashlib.blake2b(data).digest()
        result = b""
        while out - len(result) > 64:
            result += block[:32]
            block = hashlib.blake2b(block, digest_size=min(64, out - len(result))).digest()
        return result + block

    def mix(v, a, b, c, d):
        for first, second in ((32, 24), (16, 63)):
            for x, y, z, bits in ((a, b, d, first), (c, d, b, second)):
                v[x] = (v[x] + v[y] + 2 * (v[x] & M32) * (v[y] & M32)) & M64
                word = v[z] ^ v[x]
                v[z] = (word >> bits | word << (64 - bits)) & M64

    def fill(one, other, old=None):
        r = [x ^ y for x, y in zip(one, other)]
        v = r[:]
        rows = [[16 * n + i for i in range(16)] for n in range(8)]
        columns = [[2 * n + 16 * (i // 2) + i % 2 for i in range(16)] for n in range(8)]
        for at in rows + columns:
            for quarter in COLUMNS + DIAGONALS:
                mix(v, *(at[i] for i in quarter))
        return [x ^ y ^ (z if old else 0) for x, y, z in zip(v, r, old or r)]

    head = struct.pack("<6I", lanes, length, memory, passes, 0x13, 2)
    for part in (passphrase, salt, b"", b""):
        head += struct.pack("<I", len(part)) + part
    seed = hashlib.blake2b(head).digest()
    quarter = memory // (4 * lanes)
    count = 4 * quarter
    lane_at = lambda lane, n: struct.unpack("<128Q", long_hash(seed + struct.pack("<II", n, lane), 1024))
    blocks = [[list(lane_at(lane, n)) for n in (0, 1)] + [None] * (count - 2) for lane in range(lanes)]
    for step in range(4 * passes):
        turn_no, part = divmod(step, 4)
        for lane in range(lanes):
            for index in range(quarter):
                at = part * quarter + index
                if turn_no == 0 and at < 2:
                    continue
                before = blocks[lane][at - 1]
                if turn_no == 0 and part < 2:
                    counter = [turn_no, lane, part, count * lanes, passes, 2, index // 128 + 1] + [0] * 121
                    zero = [0] * 128
                    word = fill(zero, fill(zero, counter))[index % 128]
                else:
                    word = before[0]
                other = lane if turn_no == 0 and part == 0 else (word >> 32) % lanes
                size = (part if turn_no == 0 else 3) * quarter
                size += index - 1 if other == lane else (-1 if index == 0 else 0)
                back = size - 1 - (size * ((word & M32) ** 2 >> 32) >> 32)
                start = 0 if turn_no == 0 or part == 3 else (part + 1) * quarter
                source = blocks[other][(start + back) % count]
                blocks[lane][at] = fill(before, source, blocks[lane][at] if turn_no else None)
    final = blocks[0][-1]
    for lane in blocks[1:]:
        final = [x ^ y for x, y in zip(final, lane[-1])]
    return long_hash(struct.pack("<128Q", *final), length)
