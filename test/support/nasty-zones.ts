import type { ServedZone } from "./peers-authoritative.ts";

const LONG_LABEL = "l".repeat(63);

/** Wildcards, aliases, redirections, cuts and empty non-terminals, each led into the others. */
const PARENT = `$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ NS ns1
@ NS ns.other.example.
@ MX 10 mail
@ MX 20 mail.other.example.
@ TXT "apex"
@ CAA 0 issue "ca.example"
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
mail A 192.0.2.25
www A 192.0.2.80
www AAAA 2001:db8::80
deep.a.b.c TXT "deep"
*.w A 192.0.2.7
*.w MX 5 mail
exact.w TXT "exact"
ent.below.w TXT "below an empty non-terminal"
cut.w NS ns.other.example.
*.wc CNAME www
*.wcc CNAME x.wc
*.wce CNAME b.c
*.wcn CNAME none
*.wco CNAME www.other.example.
*.wcx CNAME www.outside.test.
*.wcl CNAME a.wcl
*.wcs CNAME x.sub
*.wcd CNAME x.dn
*.wch CNAME www.child
*.star A 192.0.2.8
a.*.star A 192.0.2.9
*.*.double A 192.0.2.10
y.*.mid A 192.0.2.11
*.e1.e2 A 192.0.2.12
alias CNAME www
alias2 CNAME alias
aliasn CNAME none
aliase CNAME c
aliass CNAME x.sub
aliasc CNAME sub
aliasg CNAME ns.sub
aliasd CNAME x.dn
aliasdn CNAME dn
aliasw CNAME x.w
aliaso CNAME www.other.example.
aliasx CNAME www.outside.test.
aliasch CNAME www.child
aliaschn CNAME none.child
aliasapex CNAME @
self CNAME self
loop1 CNAME loop2
loop2 CNAME loop1
dn DNAME target
dn TXT "beside a DNAME"
dn A 192.0.2.13
www.target A 192.0.2.15
cn.target CNAME www
dn2.target DNAME w
*.wt.target TXT "wild"
dn1 DNAME dn
dnapex DNAME @
dnw DNAME w
dnsub DNAME sub
dnchild DNAME child
dnother DNAME other.example.
dnout DNAME outside.test.
dnself DNAME x.dnself
dnent DNAME b.c
dnnone DNAME none
dnlong DNAME ${LONG_LABEL}.${LONG_LABEL}.${LONG_LABEL}.target
sub NS ns.sub
sub NS ns1
sub NS ns.other.example.
sub DS 1 13 2 ${"ab".repeat(32)}
ns.sub A 192.0.2.54
ns.sub AAAA 2001:db8::54
x.sub A 192.0.2.16
sub2 NS ns.sub
sub3 NS ns.sub3
far.e3 NS ns.outside.test.
inner.sub NS ns.inner.sub
ns.inner.sub A 192.0.2.17
*.wsub.sub A 192.0.2.18
child NS ns1
child NS ns.child
child DS 2 13 2 ${"cd".repeat(32)}
ns.child A 192.0.2.55
_sip._tcp SRV 1 2 5060 www
_none._tcp SRV 0 0 0 .
_wild._tcp SRV 1 2 5060 x.w
_cn._tcp SRV 1 2 5060 alias
_cut._tcp SRV 1 2 5060 ns.sub
naptr NAPTR 1 1 "s" "SIP+D2U" "" _sip._tcp
svc HTTPS 1 www alpn=h2
svca HTTPS 0 www
esc\\.aped A 192.0.2.19
sp\\032ace A 192.0.2.20
\\000 A 192.0.2.21
\\255\\128 A 192.0.2.22
UPPER A 192.0.2.23
upalias CNAME WWW
mxloop MX 1 mxloop
mxalias MX 1 alias
nsdata A 192.0.2.24
`;

/** A child that the same server has, with a cut of its own. */
const CHILD = `$TTL 600
@ SOA ns1.nasty.example. hostmaster 9 7200 3600 1209600 60
@ NS ns1.nasty.example.
@ NS ns
ns A 192.0.2.55
www A 192.0.2.101
*.w CNAME www.nasty.example.
sub NS ns.sub
ns.sub A 192.0.2.56
up CNAME www.nasty.example.
updn DNAME nasty.example.
`;

/** A zone beside it, led into from it. */
const OTHER = `$TTL 600
@ SOA ns hostmaster 11 7200 3600 1209600 60
@ NS ns
@ A 192.0.2.110
ns A 192.0.2.111
mail A 192.0.2.112
www A 192.0.2.113
back CNAME www.nasty.example.
`;

export const NASTY_ZONES: readonly ServedZone[] = [
  { name: "nasty.example", text: `$ORIGIN nasty.example.\n${PARENT}` },
  { name: "child.nasty.example", text: `$ORIGIN child.nasty.example.\n${CHILD}` },
  { name: "other.example", text: `$ORIGIN other.example.\n${OTHER}` },
];

/** Names to ask for, below `nasty.example` unless they end in a dot; empty for the apex. */
export const NASTY_NAMES: readonly string[] = [
  ..."|www|none|x.none|c|b.c|a.b.c|deep.a.b.c|x.deep.a.b.c|x.b.c".split("|"),
  ..."w|x.w|x.y.w|*.w|x.*.w|exact.w|x.exact.w|below.w|ent.below.w|x.below.w|cut.w|x.cut.w|*.cut.w".split("|"),
  ..."wc|x.wc|*.wc|x.wcc|x.wce|x.wcn|x.wco|x.wcx|x.wcl|a.wcl|x.wcs|x.wcd|x.wch".split("|"),
  ..."x.star|*.star|a.*.star|b.*.star|a.x.star|x.x.double|x.*.double|*.double|double|*.*.double|x.y.z.double".split(
    "|",
  ),
  ..."mid|*.mid|y.*.mid|x.*.mid|y.x.mid|x.mid|e2|e1.e2|x.e1.e2|x.e2".split("|"),
  ..."alias|alias2|aliasn|aliase|aliass|aliasc|aliasg|aliasd|aliasdn|aliasw|aliaso|aliasx|aliasch|aliaschn|aliasapex".split(
    "|",
  ),
  ..."self|loop1|dn|x.dn|www.dn|cn.dn|below.dn|x.below.dn|dn2.dn|x.dn2.dn|q.wt.dn|wt.dn|dn1|www.dn1|x.dnapex|alias.dnapex".split(
    "|",
  ),
  ..."x.dnw|cut.dnw|x.cut.dnw|x.dnsub|ns.dnsub|dnsub|www.dnchild|x.w.dnchild|none.dnchild|sub.dnchild".split("|"),
  ..."www.dnother|x.dnout|x.dnself|a.dnent|x.dnent|x.dnnone|x.dnlong|www.dnlong|yy.yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy.dnlong".split(
    "|",
  ),
  ..."sub|x.sub|ns.sub|none.sub|inner.sub|x.inner.sub|ns.inner.sub|wsub.sub|q.wsub.sub|sub2|x.sub2|sub3|ns.sub3".split(
    "|",
  ),
  ..."e3|far.e3|x.far.e3|child|ns.child|www.child|x.w.child|sub.child|x.sub.child|ns.sub.child|up.child|alias.updn.child".split(
    "|",
  ),
  ..."_tcp|_sip._tcp|_none._tcp|_wild._tcp|_cn._tcp|_cut._tcp|naptr|svc|svca|mail|ns1".split("|"),
  ..."esc\\.aped|aped|esc|sp\\032ace|\\000|\\255\\128|upper|UPPER|WwW|upalias|mxloop|mxalias".split("|"),
  ..."other.example.|www.other.example.|back.other.example.|none.other.example.|example.|nastier.example.|.".split("|"),
];

/** One of each kind of treatment. */
export const NASTY_TYPES: readonly string[] = ["A", "NS", "SOA", "DS", "CNAME", "DNAME", "TXT", "TYPE65280"];
