#!/usr/bin/env python3
"""Reads the test vectors of this folder, as docs/FORMAT.md describes the bytes, and fails if something differs.

    docs/vectors/read.py [FILE...]     all files of the folder unless named

It needs the package `cryptography` (python3-cryptography) for AES and ChaCha20-Poly1305. It is not for real data: it is
slow, and does not wipe keys.
"""
import base64
import json
import struct
import sys
import unicodedata
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

sys.dont_write_bytecode = True
from primitives import COLUMNS, DIAGONALS, M32, argon2id, blake3, kdf, list_of, mac, turn, xxh3_128

def same(got, expected, what):
    if got != expected:
        raise SystemExit(f"{what}: {got!r} is not {expected!r}")


# Records: FORMAT, "Sealing" and "Compression".

KEY_LENGTHS = {1: 32, 2: 16, 3: 24, 4: 32, 5: 16, 6: 24, 7: 32, 8: 32}


def record_cipher(suite, key, nonce):
    """The cipher of a record, and the nonce that is left for it."""
    if suite == 8:
        v = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce[:16]))
        for _ in range(10):
            for a, b, c, d in COLUMNS + DIAGONALS:
                for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    v[x] = (v[x] + v[y]) & M32
                    v[z] = turn(v[z] ^ v[x], 32 - bits)
        return ChaCha20Poly1305(struct.pack("<8I", *v[:4], *v[12:])), b"\0\0\0\0" + nonce[16:]
    aes = lambda block: Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
    first = int.from_bytes(aes(bytes(16)), "big") << 1
    k1 = (first & (1 << 128) - 1) ^ (0x87 if first >> 128 else 0)
    label = 0x58 if suite == 1 else suite
    blocks = (bytes([0, i, label, 0]) + nonce[:12] for i in (1, 2))
    parts = (aes((int.from_bytes(block, "big") ^ k1).to_bytes(16, "big")) for block in blocks)
    record_key = b"".join(parts)[: len(key)]
    return (AESCCM if suite in (5, 6, 7) else AESGCM)(record_key), nonce[12:]


def associated(kind, generation, suite, compression, logical_size, family):
    return struct.pack("<HBBB3xIIQ8x", 1, suite, kind, compression, generation, logical_size, family)


def lz4(block, size):
    out, at = bytearray(), 0

    def length(nibble):
        nonlocal at
        value = nibble
        while nibble == 15:
            value, at = value + block[at], at + 1
            if block[at - 1] < 255:
                break
        return value

    while at < len(block):
        token, at = block[at], at + 1
        literals = length(token >> 4)
        out += block[at : at + literals]
        at += literals
        if at < len(block):
            distance, at = int.from_bytes(block[at : at + 2], "little"), at + 2
            for _ in range(length(token & 15) + 4):
                out.append(out[-distance])
    same(len(out), size, "decompressed bytes")
    return bytes(out)


# Keyrings: FORMAT, section 4.


def unwrap(key, aad, wrapped):
    nonce, commitment, sealed = wrapped[:24], wrapped[24:56], wrapped[56:]
    expected = kdf("strongroom 2026-11 key wrapping commitment v1", list_of(key, nonce, aad))
    same(commitment, expected, "commitment")
    cipher, rest = record_cipher(1, key, nonce)
    return cipher.decrypt(rest, sealed, aad)


def open_keyring(bytes_, material):
    """The generations, by number, that a passphrase (text) or a key (bytes) opens."""
    same(bytes_[:8], b"SRKEYRNG", "magic")
    same(struct.unpack_from("<I", bytes_, 8)[0], len(bytes_), "length")
    same(blake3(bytes_[:-32]), bytes_[-32:], "checksum of the keyring")
    version, wrapping, slots, count, family = struct.unpack_from("<HBBI4xQ", bytes_, 12)
    id_, at, wrapping_key = bytes_[32:48], 48, None
    same((version in (1, 2, 3), wrapping), (True, 1), "version and wrapping")
    for _ in range(slots):
        head, wrapped = bytes_[at : at + 24], bytes_[at + 24 : at + 128]
        kind, length = struct.unpack_from("<H", head, 4)[0], struct.unpack_from("<H", head, 16)[0]
        parameters = bytes_[at + 128 : at + 128 + length]
        at += 128 + length
        if kind == 1 and isinstance(material, str):
            algorithm, memory, passes, lanes = struct.unpack_from("<H2xIII", parameters)
            same(algorithm, 1, "password hash")
            text = unicodedata.normalize("NFC", material).encode()
            slot_key = argon2id(text, parameters[16:], memory, passes, lanes)
        elif kind == 2 and isinstance(material, bytes):
            slot_key = kdf("strongroom 2026-11 slot key from a key v1", list_of(material, parameters))
        else:
            continue
        wrapping_key = unwrap(slot_key, b"strongroom key slot v1" + id_ + head + parameters, wrapped)
    generations = {}
    for _ in range(count):
        head, at = bytes_[at : at + 40], at + 40
        number, suite, _, _, parts = struct.unpack_from("<IBBBB", head)
        keys, lengths = b"", {0: [("", 168)], 1: [("reads", 136), ("seals", 104)], 2: [("reads", 136)]}[parts]
        for word, length in lengths:
            text = b"strongroom generation v2" + word.encode() if word else b"strongroom generation v1"
            keys += unwrap(wrapping_key, text + struct.pack("<Q", family) + head, bytes_[at : at + length])
            at += length
        generations[number] = (suite, keys[:32], keys[32:64], keys[64:])
    same(at + 32, len(bytes_), "end of the keyring")
    return family, generations


# Streams, nodes and seals: FORMAT, sections 2, 5 and 12.


def read_frames(stream):
    chain, at = bytes(32), 0
    while at < len(stream):
        head, payload_hash, next_chain = stream[at : at + 96], stream[at + 96 : at + 128], stream[at + 128 : at + 160]
        same(head[:4], b"SRSF", "magic of a frame")
        length = struct.unpack_from("<I", head, 24)[0]
        payload = stream[at + 160 : at + 160 + length]
        same(payload_hash, blake3(payload), "hash of a frame")
        chain = blake3(chain + head + payload_hash)
        same(next_chain, chain, "chain of a frame")
        at += 160 + length
        slot, count = struct.unpack_from("<QQ", head, 8)
        yield head[4], head[5], slot, count, head[32:96], payload


def root_of(records, level):
    """The identity of the root of an array with these records: slot, identity and checksum."""
    row = {slot: (identity, check) for slot, (identity, check) in records.items()}
    for height in range(1, level + 1):
        nodes = {}
        for number in {slot >> 5 for slot in row}:
            children = [row.get(32 * number + child, (bytes(64), b"")) for child in range(32)]
            identities, checks = (b"".join(part) for part in zip(*children))
            digest = blake3(identities + bytes([height]) + checks)
            nodes[number] = (digest + bytes(8 + 7) + bytes([height]) + bytes(16), b"")
        row = nodes
    return row[0][0] if row else bytes(64)


def open_record(family, generations, array, identity, sealed):
    nonce, tag = identity[:24], identity[24:40]
    generation, suite, compression, flags, level, size = struct.unpack_from("<IBBBBI", identity, 40)
    same((flags, level), (1, 0), "flags and level of a record")
    same(identity[52:], blake3(sealed)[16:28], "check of a record")
    key = generations[generation][1][: KEY_LENGTHS[suite]]
    cipher, rest = record_cipher(suite, key, nonce)
    aad = associated(array, generation, suite, compression, size, family)
    payload = cipher.decrypt(rest, sealed + tag, aad)
    if compression == 0:
        return payload
    same(compression, 1, "compression")
    return lz4(payload[4 : 4 + struct.unpack_from("<I", payload)[0]], size)


class Fields:
    def __init__(self, bytes_):
        self.bytes, self.at = bytes_, 0

    def take(self, length):
        self.at += length
        return self.bytes[self.at - length : self.at]

    def number(self, length):
        return int.from_bytes(self.take(length), "little")


def read_begin(payload):
    f, begin = Fields(payload), {}
    same(f.take(8), b"SRSTREAM", "magic of a stream")
    same(f.number(2), 5, "version of the stream")
    begin["suite"] = f.number(1)
    f.take(9)
    for name in ("to", "from", "pool", "referenced", "family", "created", "keys_txg"):
        begin[name] = f.number(8)
    begin["sealed"] = [f.take(8), f.take(8), f.take(24)]
    begin["seal"] = f.take(32)
    f.take(128)
    begin["roots"] = [f.take(64), f.take(64)]
    is_volume, states, _needed_txg = f.number(1), f.take(32), f.number(8)
    begin["sealed"][2] += states if any(states) else b""
    begin["volume"] = f.take(16) if is_volume else b""
    begin["name"] = f.take(f.number(2)).decode()
    begin["properties"] = [[f.take(f.number(2)).decode() for _ in range(2)] for _ in range(f.number(2))]
    begin["keyring"] = f.take(len(payload) - f.at)
    return begin


def seal_of(key, guid, sequence, roots, log, volume, facts):
    parts = [b"strongroom dataset seal v1", guid, sequence, *roots]
    parts += [log] if any(log) else []
    parts += [b"volume", volume] if volume else []
    parts += [b"sealed facts", blake3(facts.encode())] if facts else []
    return mac(key, list_of(*parts))


# Logs: FORMAT, section 7.


def read_entry(entry, data_key, seal_key, family):
    """The numbers of the header of an entry, and its payload."""
    names = ("pool", "dataset", "chain", "sequence", "flushed", "len", "places")
    head = dict(zip(names, struct.unpack_from("<5Q2I", entry, 8)))
    same((entry[:8], head["len"]), (b"SR-LOGE3", len(entry)), "magic and length of an entry")
    same(entry[160:192], blake3(entry[:160] + xxh3_128(entry[192:])), "checksum of an entry")
    places = [entry[at : at + 64] for at in range(192, 192 + 64 * head["places"], 64)]
    identity, sealed = entry[64:128], entry[192 + 64 * len(places) :]
    generation, suite, compression, _, _, size = struct.unpack_from("<IBBBBI", identity, 40)
    same((compression, size), (0, len(sealed)), "compression and size of a payload")
    key = kdf("strongroom 2026-11 log key v1", list_of(data_key, seal_key))[: KEY_LENGTHS[suite]]
    cipher, rest = record_cipher(suite, key, identity[:24])
    aad = associated(2, generation, suite, 0, size, family) + entry[16:48] + entry[128:160]
    aad += b"".join(place[40:56] for place in places)
    payload = cipher.decrypt(rest, sealed + identity[24:40], aad)
    chain, sequence, length = struct.unpack_from("<QQQ", payload)
    same((chain, sequence), (head["chain"], head["sequence"]), "chain and sequence under the seal")
    return head, payload[24 : 24 + length]


def read_steps(f):
    while f.at < len(f.bytes):
        kind, step = f.number(1), {"txg": f.number(8)}
        step["kind"] = kind
        if kind == 1:
            step["next_ino"], step["next_data"] = f.number(8), f.number(8)
            lengths = lambda: (f.number(2), f.number(4))
            edits = (lengths() for _ in range(f.number(4)))
            step["edits"] = [[f.take(key).hex(), None if value == M32 else f.take(value).hex()] for key, value in edits]
        else:
            step["inode"], step["record"] = f.number(8), f.number(8)
        if kind == 2:
            step["start"], step["whole"] = f.number(4), f.number(1)
            step["bytes"] = f.take(f.number(4)).hex()
        if kind == 3:
            step["pointer"] = f.take(128).hex()
        yield step


# The vectors.


def check_keyring(case):
    material = case["passphrase"] if "passphrase" in case else bytes.fromhex(case["key"])
    family, generations = open_keyring(bytes.fromhex(case["keyring"]), material)
    same(family, case["family"], "family")
    for expected in case["generations"]:
        suite, data, dedup, seal = generations.pop(expected["number"])
        got = {"suite": suite, "data": data.hex(), "dedup": dedup.hex(), "seal": seal.hex()}
        same(got, {name: expected[name] for name in got}, "generation")
    same(generations, {}, "more generations")


def check_record(case):
    suite, generation, family = case["suite"], case["generation"], case["family"]
    nonce, plain = bytes.fromhex(case["nonce"]), bytes(i % 251 for i in range(case["logical_size"]))
    cipher, rest = record_cipher(suite, bytes.fromhex(case["data_key"]), nonce)
    aad = associated(case["kind"], generation, suite, 0, len(plain), family)
    sealed = cipher.encrypt(rest, plain, aad)
    digest = blake3(sealed[:-16])
    same(digest.hex(), case["ciphertext_blake3"], "ciphertext")
    identity = nonce + sealed[-16:] + struct.pack("<IBBBBI", generation, suite, 0, 1, 0, len(plain)) + digest[16:28]
    same(identity.hex(), case["identity"], "identity")


def check_stream(case):
    frames = list(read_frames(base64.b64decode(case["stream"])))
    same((frames[0][0], frames[-1][0], frames[-1][3]), (1, 4, len(frames) - 1), "first and last frame")
    begin = read_begin(frames[0][5])
    family, generations = open_keyring(begin["keyring"], bytes.fromhex(case["key"]))
    same(family, begin["family"], "family")
    arrays, contents = ({}, {}), ({}, {})
    for kind, array, slot, _, identity, payload in frames[1:-1]:
        if kind == 2:
            arrays[array][slot] = (identity, blake3(payload)[:16])
            contents[array][slot] = open_record(family, generations, array, identity, payload)
    roots = [root_of(records, root[47]) for records, root in zip(arrays, begin["roots"])]
    same(roots, begin["roots"], "roots")
    newest = generations[max(generations)]
    guid, sequence, log = begin["sealed"]
    facts = dict(begin["properties"]).get("@sealed-facts")
    same(seal_of(newest[3], guid, sequence, roots, log, begin["volume"], facts).hex(), case["seal"], "seal")
    same(begin["seal"].hex(), case["seal"], "seal of the stream")
    same(begin["name"], case["snapshot"], "name of the snapshot")
    same(contents[0].get(0, b"SR-FILES")[:8], b"SR-FILES", "header of the dataset")
    data = b"".join(contents[1][slot] for slot in sorted(contents[1]))
    same(data.rstrip(b"\0").decode(), case["contents"], "contents")


def check_seal(case):
    number = lambda *values: b"".join(struct.pack("<Q", value) for value in values)
    log, volume = (number(*case[name]) if any(case[name]) else b"" for name in ("log", "volume"))
    log += b"".join(bytes.fromhex(state) for state in case["log_states"])
    roots = [bytes.fromhex(root) for root in case["roots"]]
    key, guid, sequence = bytes.fromhex(case["key"]), number(case["guid"]), number(case["sequence"])
    same(seal_of(key, guid, sequence, roots, log, volume, case["facts"]).hex(), case["seal"], "seal")


def check_log(case):
    entry = base64.b64decode(case["entry"])
    data_key, seal_key = (bytes.fromhex(case[name]) for name in ("data_key", "seal_key"))
    head, steps = read_entry(entry, data_key, seal_key, case["family"])
    same(head["dataset"], case["dataset"], "dataset")
    edits = [edit for step in read_steps(Fields(steps)) if step["kind"] == 1 for edit in step["edits"]]
    # Inode 1, kind 50 (names), hash of the name; inode, kind, length of the name, name.
    names = [bytes.fromhex(value)[10:].decode() for key, value in edits if key[:18] == "000000000000000150"]
    same(names, case["names"], "names")


CHECKS = {
    "keyrings": check_keyring,
    "logs": check_log,
    "records": check_record,
    "seals": check_seal,
    "streams": check_stream,
}


def main():
    same(blake3(b"").hex()[:16], "af1349b9f5f9a1a6", "BLAKE3")
    files = [Path(name) for name in sys.argv[1:]] or sorted(Path(__file__).parent.glob("*.json"))
    for file in files:
        cases = json.loads(file.read_text())
        for case in cases:
            CHECKS[file.stem](case)
        print(f"{file.name}: {len(cases)} vectors are right")


if __name__ == "__main__":
    main()
