/** A zone with every kind of name that an answer of a signed zone can be about. */
export const PARENT_ZONE = `$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ NS ns1
@ MX 10 mail
@ TXT "text"
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
mail A 192.0.2.25
www CNAME web
web A 192.0.2.80
away CNAME www.example.net.
nowhere CNAME missing
toent CNAME c
tochild CNAME www.child
tochildwild CNAME any.wild.child
tonochild CNAME missing.child
a.b.c TXT "deep"
loop1 CNAME loop2
loop2 CNAME loop1
chain CNAME www
_sip._tcp SRV 1 2 5060 sip
sip A 192.0.2.60
*.wild A 192.0.2.7
*.wild MX 5 mail
exact.wild TXT "here"
ent.below.wild TXT "below an empty non-terminal"
*.alias CNAME web
*.alias2 CNAME x.wild
*.alias3 CNAME missing
*.alias4 CNAME any.wild.child
*.wadeep CNAME y.alias
dname DNAME target
x.target CNAME web
under.target A 192.0.2.90
*.wt.target A 192.0.2.91
far DNAME example.net.
sub NS ns.sub
sub NS ns1
sub DS 1 13 2 ${"ab".repeat(32)}
ns.sub A 192.0.2.54
plain NS ns.plain
ns.plain A 192.0.2.55
deep.ent2 NS ns.example.net.
*.gap A 192.0.2.8
deep.ent.gap NS ns.example.net.
child NS ns1
x.y.*.mid A 192.0.2.3
*.star A 192.0.2.4
a.*.star A 192.0.2.5
UPPER A 192.0.2.99
zz A 192.0.2.100
`;

/** A child of it, on the same server. */
export const CHILD_ZONE = `$TTL 600
@ SOA ns1.example.org. hostmaster 9 7200 3600 1209600 60
@ NS ns1.example.org.
www A 192.0.2.101
*.wild A 192.0.2.102
`;

/** Names to ask for that can be resolved to their end; the apex is empty. */
export const RESOLVABLE_NAMES: readonly string[] = [
  ..."|web|www|zz.zz|missing|a.missing|c|b.c|a.b.c|x.b.c|x.wild|x.y.wild|wild|*.wild|exact.wild|x.exact.wild".split(
    "|",
  ),
  ..."below.wild|ent.below.wild|x.below.wild|q.alias|q.alias2|q.alias3|q.alias4|q.wadeep|x.dname|dname".split("|"),
  ..."under.dname|nope.dname|q.wt.dname|ent2|mid|*.mid|y.*.mid|x.q.mid|q.mid|star|q.star|a.q.star|*.star".split("|"),
  ..."a.*.star|b.*.star|upper|zzz|_sip._tcp|_tcp|nowhere|toent|chain|\\000|aaa|mail".split("|"),
  ..."tochild|tochildwild|tonochild|child|www.child|q.wild.child|missing.child".split("|"),
  ..."gap|q.gap|ent.gap|x.ent.gap".split("|"),
];

/** Names whose resolution ends elsewhere, in a loop, or below a cut. */
export const UNRESOLVABLE_NAMES: readonly string[] =
  "x.far|sub|x.sub|ns.sub|plain|x.plain|a.plain|deep.ent2|x.deep.ent2|away|loop1".split("|");
