CREATE TABLE public.answers (
    stream character varying(200) NOT NULL,
    id character varying(200) NOT NULL,
    number bigint NOT NULL,
    asked character varying(64) NOT NULL,
    answer text NOT NULL
);
CREATE TABLE public.entries (
    stream character varying(200) NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL,
    body text NOT NULL,
    previous character varying(64) NOT NULL,
    hash character varying(64) NOT NULL
);
CREATE TABLE public.keys (
    name character varying(100) NOT NULL,
    hash character varying(64) NOT NULL,
    scopes text NOT NULL,
    made double precision NOT NULL,
    expires double precision,
    revoked double precision
);
CREATE TABLE public.pictures (
    stream character varying(200) NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL,
    media_type character varying(100) NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.replicas (
    name character varying(64) NOT NULL,
    beat bigint NOT NULL
);
CREATE TABLE public.streams (
    name character varying(200) NOT NULL,
    kind character varying(20) NOT NULL,
    digest character varying(64) NOT NULL,
    number bigint NOT NULL,
    hash character varying(64) NOT NULL,
    state text NOT NULL
);
CREATE TABLE public.versions (
    version bigint NOT NULL
);
INSERT INTO public.answers VALUES ('a', 'request 1', 1, 'eb75118a94a569aa83be615087abed51929ee9e028ee449daa6016a8812c316f', '{"number":1,"total":1}');
INSERT INTO public.answers VALUES ('a', 'request 2', 2, '9734745a0410635c71f5d6be53d2080c67a792523d1af349abc21e5b8c582470', '{"number":2,"total":3}');
INSERT INTO public.answers VALUES ('a', 'request 3', 3, 'bf199c3f8ce25fcd6ff06d3c2f6c5359fcf48ef318bbe5762af961df8ea2af78', '{"number":3,"total":6}');
INSERT INTO public.answers VALUES ('a', 'request 4', 4, '7017441b68709dcb270b0add1b3525ff5e6b6cb80d6ccd02955dbdbe0f580aac', '{"number":4,"total":10}');
INSERT INTO public.answers VALUES ('a', 'request 5', 5, '8f2bec1b5d3c065ea8d0fce41d899b34648a79e0b67e082e485eeca3c7ff4a37', '{"number":5,"total":15}');
INSERT INTO public.answers VALUES ('a', 'π xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 6, 'a12c47573d9387d4b054e3440a22e8fc78a05585c6daa996fc2e2f1a87e2146c', '{"number":6,"total":25}');
INSERT INTO public.answers VALUES ('b', 'request 1', 1, 'eb75118a94a569aa83be615087abed51929ee9e028ee449daa6016a8812c316f', '{"number":1,"total":1}');
INSERT INTO public.entries VALUES ('a', 0, 1700000000, '{"configuration":{"counts":true},"digest":"0000000000000000000000000000000000000000000000000000000000000000","kind":"counting","state":{"open":{},"total":0}}', '0000000000000000000000000000000000000000000000000000000000000000', '2ee87d1915695a82d46636efde1675fd5c8c9cbd320e73e308410d055d838856');
INSERT INTO public.entries VALUES ('b', 0, 1700000001, '{"configuration":{"counts":true},"digest":"0000000000000000000000000000000000000000000000000000000000000000","kind":"counting","state":{"open":{},"total":0}}', '0000000000000000000000000000000000000000000000000000000000000000', '328abbd5f437cce79722154fc06208f07890a5f8bc66e74397ad19770ce16307');
INSERT INTO public.entries VALUES ('a', 1, 1700000002, '{"before":{"total":0},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 1","input":{"amount":1,"op":"add"},"output":{"number":1,"total":1}}', '2ee87d1915695a82d46636efde1675fd5c8c9cbd320e73e308410d055d838856', '7ba32bade4d335850ddfcb032c49dea1e840ad3a85181e502802c89bf27a7639');
INSERT INTO public.entries VALUES ('a', 2, 1700000003, '{"before":{"total":1},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 2","input":{"amount":2,"op":"add"},"output":{"number":2,"total":3}}', '7ba32bade4d335850ddfcb032c49dea1e840ad3a85181e502802c89bf27a7639', 'e197817368aaac9a6b6dc65e032bf60b816872a8799a56b67afe3ad37d9e5a9c');
INSERT INTO public.entries VALUES ('a', 3, 1700000004, '{"before":{"total":3},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 3","input":{"amount":3,"op":"add"},"output":{"number":3,"total":6}}', 'e197817368aaac9a6b6dc65e032bf60b816872a8799a56b67afe3ad37d9e5a9c', 'a8b0036454ba647064699bf7e90d2dfcdfe9970f0380a746d5ecc489afa7d368');
INSERT INTO public.entries VALUES ('a', 4, 1700000005, '{"before":{"total":6},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 4","input":{"amount":4,"op":"add"},"output":{"number":4,"total":10}}', 'a8b0036454ba647064699bf7e90d2dfcdfe9970f0380a746d5ecc489afa7d368', '94842420e305c2720446942b62c67cfb8232df55c21ffeb982004859bdbfc03a');
INSERT INTO public.entries VALUES ('a', 5, 1700000006, '{"before":{"total":10},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 5","input":{"amount":5,"op":"add"},"output":{"number":5,"total":15}}', '94842420e305c2720446942b62c67cfb8232df55c21ffeb982004859bdbfc03a', '0f3c932d6f7fd65a4d65dff846f2c74691f8999a7d6dc990100022749782f9f6');
INSERT INTO public.entries VALUES ('a', 6, 1700000007, '{"before":{"total":15},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"\u03c0 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","input":{"amount":10,"op":"add"},"output":{"number":6,"total":25}}', '0f3c932d6f7fd65a4d65dff846f2c74691f8999a7d6dc990100022749782f9f6', '7c763e145535d7e6aaec4a14de8b9149a7d51354d87d9864fb74d6f072b8f4df');
INSERT INTO public.entries VALUES ('a', 7, 1700000008, '{"before":{"total":25},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":null,"input":{"op":"open","replica":"old"},"output":{"number":7,"total":25}}', '7c763e145535d7e6aaec4a14de8b9149a7d51354d87d9864fb74d6f072b8f4df', 'c5988b4275a56e2e15e78dc3d4aeb0b006bcc3d9e255862eefa48db502807955');
INSERT INTO public.entries VALUES ('b', 1, 1700000009, '{"before":{"total":0},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 1","input":{"amount":1,"op":"add"},"output":{"number":1,"total":1}}', '328abbd5f437cce79722154fc06208f07890a5f8bc66e74397ad19770ce16307', '7dd832f967e1de6ea7626dd8c809f1d8a5e58df4b87e70b6f40ee2fe8224bb8e');
INSERT INTO public.pictures VALUES ('a', 2, 1700000005.5, 'image/png', '\x89504e47206f6e65');
INSERT INTO public.pictures VALUES ('a', 3, 1700000006.5, 'image/png', '\x89504e472074776f');
INSERT INTO public.replicas VALUES ('old', 7);
INSERT INTO public.streams VALUES ('a', 'counting', '0000000000000000000000000000000000000000000000000000000000000000', 7, 'c5988b4275a56e2e15e78dc3d4aeb0b006bcc3d9e255862eefa48db502807955', '{"total": 25, "open": {"7": "old"}}');
INSERT INTO public.streams VALUES ('b', 'counting', '0000000000000000000000000000000000000000000000000000000000000000', 1, '7dd832f967e1de6ea7626dd8c809f1d8a5e58df4b87e70b6f40ee2fe8224bb8e', '{"total": 1, "open": {}}');
INSERT INTO public.versions VALUES (1);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (stream, id);
ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (stream, number);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_hash_key UNIQUE (hash);
ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.pictures
    ADD CONSTRAINT pictures_pkey PRIMARY KEY (stream, number);
ALTER TABLE ONLY public.replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (version);
CREATE INDEX entries_by_time ON public.entries USING btree (at);
