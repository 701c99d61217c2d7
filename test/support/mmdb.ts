import ipaddr from "ipaddr.js";

type MmdbValue = string | number | readonly MmdbValue[] | { readonly [key: string]: MmdbValue };

const MARKER = Buffer.from("\xab\xcd\xefMaxMind.com", "latin1");
const SEPARATOR_OCTETS = 16;
/** IPv4 addresses lie at ::/96. */
const V4_PREFIX_BITS = 96;

interface Node {
  children: [Node | number | undefined, Node | number | undefined];
}

/**
 * Writes a MaxMind database: a binary tree over IPv6 addresses with records of 24 bits, and the data that its leaves
 * point to. @param networks by block; none lies within another
 * @see https://maxmind.github.io/MaxMind-DB/
 */
export function writeMmdb(networks: Readonly<Record<string, MmdbValue>>): Buffer {
  const root: Node = { children: [undefined, undefined] };
  const data: Buffer[] = [];
  let dataOctets = 0;
  for (const [block, value] of Object.entries(networks)) {
    insert(root, bitsOf(block), dataOctets);
    const encoded = encode(value);
    data.push(encoded);
    dataOctets += encoded.length;
  }
  const nodes = listNodes(root);
  const metadata = encode({
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1_700_000_000,
    database_type: "Test-City",
    description: { en: "a test" },
    ip_version: 6,
    languages: ["en", "es"],
    node_count: nodes.size,
    record_size: 24,
  });
  return Buffer.concat([writeTree(nodes), Buffer.alloc(SEPARATOR_OCTETS), ...data, MARKER, metadata]);
}

function bitsOf(block: string): readonly (0 | 1)[] {
  const [network, prefix] = ipaddr.parseCIDR(block);
  const octets = network.toByteArray();
  const isV4 = network.kind() === "ipv4";
  const bits = octets.flatMap((octet) => Array.from({ length: 8 }, (_, bit) => ((octet >> (7 - bit)) & 1) as 0 | 1));
  return [...Array<0>(isV4 ? V4_PREFIX_BITS : 0).fill(0), ...bits.slice(0, prefix)];
}

function insert(root: Node, bits: readonly (0 | 1)[], dataOffset: number): void {
  let node = root;
  for (const bit of bits.slice(0, -1)) {
    const next = node.children[bit] ?? { children: [undefined, undefined] };
    if (typeof next === "number") throw new Error("a block lies within another");
    node.children[bit] = next;
    node = next;
  }
  node.children[bits.at(-1)!] = dataOffset;
}

/** All nodes with their numbers, the root's 0. */
function listNodes(root: Node): ReadonlyMap<Node, number> {
  const nodes = new Map<Node, number>([[root, 0]]);
  for (const node of nodes.keys()) {
    for (const child of node.children) if (typeof child === "object") nodes.set(child, nodes.size);
  }
  return nodes;
}

function writeTree(nodes: ReadonlyMap<Node, number>): Buffer {
  const tree = Buffer.alloc(nodes.size * 6);
  for (const [{ children }, number] of nodes) {
    for (const [side, child] of children.entries()) {
      const record =
        child === undefined
          ? nodes.size
          : typeof child === "number"
            ? nodes.size + SEPARATOR_OCTETS + child
            : nodes.get(child)!;
      tree.writeUIntBE(record, number * 6 + side * 3, 3);
    }
  }
  return tree;
}

function encode(value: MmdbValue): Buffer {
  if (typeof value === "string") {
    const octets = Buffer.from(value, "utf8");
    return Buffer.concat([control(2, octets.length), octets]);
  }
  if (typeof value === "number") {
    const octets = Buffer.alloc(4);
    octets.writeUInt32BE(value);
    return Buffer.concat([control(6, 4), octets]);
  }
  if (Array.isArray(value)) return Buffer.concat([control(11, value.length), ...value.map(encode)]);
  const entries = Object.entries(value);
  return Buffer.concat([
    control(7, entries.length),
    ...entries.flatMap(([key, inner]) => [encode(key), encode(inner)]),
  ]);
}

function control(type: number, size: number): Buffer {
  const [written, more] = size < 29 ? [size, []] : [29, [size - 29]];
  return Buffer.from(type <= 7 ? [(type << 5) | written, ...more] : [written, type - 7, ...more]);
}
