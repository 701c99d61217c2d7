"""Makes the golden octets beside this file with dnspython (Debian: python3-dnspython).

    /usr/bin/python3 test/golden/dns/make-golden.py

rdata.json keeps its list of types and texts; the octets are made anew. To add a case, add its type and text.
"""

import json
import pathlib
import time

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.version

HERE = pathlib.Path(__file__).parent
MAKER = "dnspython " + dns.version.version
SIGNING_TIME = 1_800_000_000

MESSAGES = {
 "query": """id 4660
opcode QUERY
flags RD
edns 0
eflags DO
payload 1232
;QUESTION
www.example.org. IN A
""",
 "answer": """id 1
opcode QUERY
rcode NOERROR
flags QR AA RD
;QUESTION
WWW.example.org. IN MX
;ANSWER
www.example.org. 300 IN MX 10 mail.example.org.
www.example.org. 300 IN MX 20 mail2.example.org.
;AUTHORITY
example.org. 3600 IN NS ns1.example.org.
example.org. 3600 IN NS ns2.example.net.
;ADDITIONAL
mail.example.org. 60 IN A 192.0.2.1
mail.example.org. 60 IN AAAA 2001:db8::1
""",
 "negative": """id 2
opcode QUERY
rcode NXDOMAIN
flags QR AA
;QUESTION
no.example.org. IN A
;AUTHORITY
example.org. 300 IN SOA ns1.example.org. hostmaster.example.org. 7 7200 900 1209600 300
""",
 "services": """id 3
opcode QUERY
flags QR AA
;QUESTION
_sip._tcp.example.org. IN SRV
;ANSWER
_sip._tcp.example.org. 300 IN SRV 0 5 5060 sip.example.org.
sip.example.org. 300 IN NAPTR 1 2 "u" "E2U+sip" "" sip.example.org.
sip.example.org. 300 IN TXT "a" "b"
""",
 "notify": """id 4
opcode NOTIFY
flags AA
;QUESTION
example.org. IN SOA
;ANSWER
example.org. 300 IN SOA ns1.example.org. hostmaster.example.org. 8 7200 900 1209600 300
""",
}


def write(name, value):
    (HERE / name).write_text(json.dumps({"maker": MAKER, **value}, indent=1) + "\n")


def make_rdata():
    golden = json.loads((HERE / "rdata.json").read_text())
    origin = dns.name.from_text(golden["origin"])
    for case in golden["rdata"]:
        code = dns.rdatatype.from_text(case["type"])
        case["hex"] = dns.rdata.from_text("IN", code, case["text"], origin=origin, relativize=False).to_wire().hex()
    write("rdata.json", {"origin": golden["origin"], "rdata": golden["rdata"]})


def make_messages():
    messages = [{"name": name, "hex": dns.message.from_text(text).to_wire().hex()} for name, text in MESSAGES.items()]
    query = dns.message.make_query("example.org.", "A")
    query.id = 5
    cookie = dns.edns.GenericOption(10, bytes(range(8)))
    query.use_edns(0, 0, 4096, options=[cookie, dns.edns.GenericOption(3, b"")])
    query.flags |= dns.flags.QR
    query.set_rcode(dns.rcode.BADVERS)
    messages.append({"name": "extended rcode and options", "hex": query.to_wire().hex()})
    write("messages.json", {"messages": messages})


def make_tsig():
    secret = bytes(range(1, 33))
    cases = []
    for algorithm in ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]:
        key = dns.tsig.Key("Key.Example.", secret, algorithm)
        query = dns.message.make_query("example.org.", "SOA")
        query.id = 4321
        query.flags = 0
        query.use_tsig(key)
        request = query.to_wire()
        answer = answer_to(query, key, "example.org. 300 IN SOA ns1.example.org. h.example.org. 1 2 3 4 5").to_wire()
        context = None
        transfer = []
        for index in range(3):
            part = answer_to(query, key, f"a{index}.example.org. 300 IN A 192.0.2.{index}")
            transfer.append(part.to_wire(multi=True, tsig_ctx=context).hex())
            context = part.tsig_ctx
        cases.append(
            {
                "algorithm": algorithm,
                "request": request.hex(),
                "requestMac": query.mac.hex(),
                "answer": answer.hex(),
                "transfer": transfer,
            }
        )
    write("tsig.json", {"keyName": "Key.Example.", "secret": secret.hex(), "timeSeconds": SIGNING_TIME, "cases": cases})


def answer_to(query, key, record):
    answer = dns.message.make_response(query)
    answer.use_tsig(key)
    answer.request_mac = query.mac
    owner, ttl, rdclass, rdtype, rdata = record.split(" ", 4)
    answer.answer.append(dns.rrset.from_text(owner, int(ttl), rdclass, rdtype, rdata))
    return answer


time.time = lambda: SIGNING_TIME
make_rdata()
make_messages()
make_tsig()
