CREATE TABLE public.answers (
    stream character varying(200) NOT NULL,
    id character varying(64) NOT NULL,
    number bigint NOT NULL,
    asked character varying(64) NOT NULL,
    answer text
);
CREATE TABLE public.checkpoints (
    stream character varying(200) NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL
);
CREATE TABLE public.entries (
    stream character varying(200) NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL,
    body text NOT NULL,
    previous character varying(64) NOT NULL,
    hash character varying(64) NOT NULL
);
CREATE TABLE public.pictures (
    stream character varying(200) NOT NULL,
    number bigint NOT NULL,
    id character varying(64) NOT NULL,
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
INSERT INTO public.answers VALUES ('a', '40b5ca23b5dbc3488bcd13873c6ea9912be7d65789be63cf3058161dd4dadaa0', 1, 'eb75118a94a569aa83be615087abed51929ee9e028ee449daa6016a8812c316f', '{"number":1,"total":1}');
INSERT INTO public.answers VALUES ('a', '65d98682059c94682d9672f488e9d4c09d9eb0527f5c4c3cbf2b36feafa965f3', 2, '9734745a0410635c71f5d6be53d2080c67a792523d1af349abc21e5b8c582470', '{"number":2,"total":3}');
INSERT INTO public.answers VALUES ('a', '4e1c131d6248537884c64d268ef5d1e00e225e7065691a3f24b1917d86161eac', 3, 'bf199c3f8ce25fcd6ff06d3c2f6c5359fcf48ef318bbe5762af961df8ea2af78', '{"number":3,"total":6}');
INSERT INTO public.answers VALUES ('a', '12b5b715998fa9f96521e2e5eb0d11e6c188c0389e934661e9c22c9910bce6bf', 4, '7017441b68709dcb270b0add1b3525ff5e6b6cb80d6ccd02955dbdbe0f580aac', '{"number":4,"total":10}');
INSERT INTO public.answers VALUES ('a', '92c2dceb4a0b4bf1b74bae30cc2ae76b69b937c595eda6c3ed4c2bce92a2326e', 5, '8f2bec1b5d3c065ea8d0fce41d899b34648a79e0b67e082e485eeca3c7ff4a37', '{"number":5,"total":15}');
INSERT INTO public.answers VALUES ('b', '40b5ca23b5dbc3488bcd13873c6ea9912be7d65789be63cf3058161dd4dadaa0', 1, 'eb75118a94a569aa83be615087abed51929ee9e028ee449daa6016a8812c316f', '{"number":1,"total":1}');
INSERT INTO public.answers VALUES ('loans', '0e889b2fb2cceb883aff361ec890e3a629a2256ef034908dbd93175f83e45c04', 1, '09d23d8f1ffea64e0911e35650d13e6fb00b70288812e1e7dea7a84f00c61d1b', '{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":1},"decision":0,"guaranteed":true,"intervened":false,"reason":"followed"}');
INSERT INTO public.answers VALUES ('loans', 'de1457c35552a3c7e642f97ede70e77b8d44f347c59dc569873631ffabd6b7ce', 2, '1874ec4769451c17c635561789c764ce8f5e4bec16bc881c88675f620f6cac9e', '{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":2},"decision":1,"guaranteed":true,"intervened":false,"reason":"followed"}');
INSERT INTO public.answers VALUES ('loans', 'f5f92a15524ecf041f06446aece15b3d313ef7ebeae1ed85c6214a2a3662479e', 3, '1ccb4d95f8ff0939b1d55b3bf35307c0f7e6ec0d66a4aa11cac9621c213f4e2b', '{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":3},"decision":0,"guaranteed":true,"intervened":false,"reason":"followed"}');
INSERT INTO public.checkpoints VALUES ('a', 0, 1767225600);
INSERT INTO public.checkpoints VALUES ('b', 0, 1767225601);
INSERT INTO public.checkpoints VALUES ('loans', 0, 1767225602);
INSERT INTO public.checkpoints VALUES ('a', 7, 1767225609);
INSERT INTO public.entries VALUES ('a', 0, 1767225600, '{"configuration":{"counts":true},"digest":"0000000000000000000000000000000000000000000000000000000000000000","kind":"counting","state":{"open":{},"total":0}}', '0000000000000000000000000000000000000000000000000000000000000000', '025b4c96c601d4972e6a6356cdbeab892f8a88759f8da7e98cfd9692d7a5cd8b');
INSERT INTO public.entries VALUES ('b', 0, 1767225601, '{"configuration":{"counts":true},"digest":"0000000000000000000000000000000000000000000000000000000000000000","kind":"counting","state":{"open":{},"total":0}}', '0000000000000000000000000000000000000000000000000000000000000000', 'b96d9184e117131a1c5bf80fb9cba651866d391a965d0d6d15f4a20b94d05d37');
INSERT INTO public.entries VALUES ('loans', 0, 1767225602, '{"configuration":{"advisory":false,"groups":["women","men"],"name":"loans","plan":{"empty_group":"min_count=3","groups":{"men":{"accept":0.6,"rate":0.6},"women":{"accept":0.35,"rate":0.4}},"horizon":40,"kappa":"0.2","property":"demographic_parity"},"policy":null,"when_down":"refuse"},"digest":"44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407","kind":"shield","state":{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":0},"shield":{"advisory":false,"checksum":"fabed62edc340815ed8c4eb6bdf206ef470717a38c7f3f82635fc929fe2463b2","cost":0.0,"course":{"counters":[0,0,0,0],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,0],"step":0},"format":"evenhand-shield-state","ids":[],"interventions":0,"policy":"44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407","version":1}}}', '0000000000000000000000000000000000000000000000000000000000000000', 'c3c984100df2638b4cddbb09396c4901c38dd592f857d3025af41db5666b0d80');
INSERT INTO public.entries VALUES ('a', 1, 1767225603, '{"before":{"total":0},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 1","input":{"amount":1,"op":"add"},"output":{"number":1,"total":1}}', '025b4c96c601d4972e6a6356cdbeab892f8a88759f8da7e98cfd9692d7a5cd8b', '1f4dfaa1c996629c6a8c83fcb47a2c87ec1c9a6bae521ce7de0b645b179e7922');
INSERT INTO public.entries VALUES ('a', 2, 1767225604, '{"before":{"total":1},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 2","input":{"amount":2,"op":"add"},"output":{"number":2,"total":3}}', '1f4dfaa1c996629c6a8c83fcb47a2c87ec1c9a6bae521ce7de0b645b179e7922', '8d81f6be1ac9c10db3a93e39e68e41dfbc3b1fe23052cef509253f98a699ea74');
INSERT INTO public.entries VALUES ('a', 3, 1767225605, '{"before":{"total":3},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 3","input":{"amount":3,"op":"add"},"output":{"number":3,"total":6}}', '8d81f6be1ac9c10db3a93e39e68e41dfbc3b1fe23052cef509253f98a699ea74', 'fa262f076a2485416bb47e519055a8c5d3af9da008cdeca0aaeff6f6db80f960');
INSERT INTO public.entries VALUES ('a', 4, 1767225606, '{"before":{"total":6},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 4","input":{"amount":4,"op":"add"},"output":{"number":4,"total":10}}', 'fa262f076a2485416bb47e519055a8c5d3af9da008cdeca0aaeff6f6db80f960', '1ba11730e0a53db0495474bea5a3daebed71fd7f7752eeba3b187fb582c7b9fd');
INSERT INTO public.entries VALUES ('a', 5, 1767225607, '{"before":{"total":10},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 5","input":{"amount":5,"op":"add"},"output":{"number":5,"total":15}}', '1ba11730e0a53db0495474bea5a3daebed71fd7f7752eeba3b187fb582c7b9fd', '5cabfbc4fb7e7507876b4706fec78a2ec827f8fba9668716b59ba4a5dde0e696');
INSERT INTO public.entries VALUES ('a', 6, 1767225608, '{"before":{"total":15},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":null,"input":{"op":"open","replica":"one"},"output":{"number":6,"total":15}}', '5cabfbc4fb7e7507876b4706fec78a2ec827f8fba9668716b59ba4a5dde0e696', '0099feb4e7249b71e46a5d3ce83bf525db1077d495a0d12ffa4e52be442c81df');
INSERT INTO public.entries VALUES ('a', 7, 1767225609, '{"configuration":{"counts":true},"digest":"0000000000000000000000000000000000000000000000000000000000000000","kind":"counting","state":{"open":{"6":"one"},"total":15}}', '0099feb4e7249b71e46a5d3ce83bf525db1077d495a0d12ffa4e52be442c81df', 'b67100555a7c5c125273cf0472c47f94ed5dfc207498711bcd661c9c8450c27d');
INSERT INTO public.entries VALUES ('a', 8, 1767225610, '{"before":{"total":15},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":null,"input":{"amount":1,"op":"add"},"output":{"number":8,"total":16}}', 'b67100555a7c5c125273cf0472c47f94ed5dfc207498711bcd661c9c8450c27d', '16b3117becbad3bd39c29c36db32914cc999e9d66ef65f4fcc7d5e36f2b78884');
INSERT INTO public.entries VALUES ('b', 1, 1767225611, '{"before":{"total":0},"digest":"0000000000000000000000000000000000000000000000000000000000000000","id":"request 1","input":{"amount":1,"op":"add"},"output":{"number":1,"total":1}}', 'b96d9184e117131a1c5bf80fb9cba651866d391a965d0d6d15f4a20b94d05d37', 'bc8939876c3e1434d997b971c8563dc9ec57cea0ace669c868271e4dae44af72');
INSERT INTO public.entries VALUES ('loans', 1, 1767225612, '{"before":{"counters":[0,0,0,0],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,0],"step":0},"digest":"44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407","id":"application 0","input":{"group":"women","id":"application 0","op":"decide","recommendation":0},"output":{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":1},"decision":0,"guaranteed":true,"intervened":false,"reason":"followed"}}', 'c3c984100df2638b4cddbb09396c4901c38dd592f857d3025af41db5666b0d80', 'bcba5a8bd7cc4ea889ff24ec6b0ac10693770c03becb5b769883cf799de7f52e');
INSERT INTO public.entries VALUES ('loans', 2, 1767225613, '{"before":{"counters":[1,0,0,0],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,0],"step":1},"digest":"44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407","id":"application 1","input":{"group":"men","id":"application 1","op":"decide","recommendation":1},"output":{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":2},"decision":1,"guaranteed":true,"intervened":false,"reason":"followed"}}', 'bcba5a8bd7cc4ea889ff24ec6b0ac10693770c03becb5b769883cf799de7f52e', 'ade8a51e0555c0436cc1f87ab31ad3bf8ce1319cf759c65ebc6400b9526f8999');
INSERT INTO public.entries VALUES ('loans', 3, 1767225614, '{"before":{"counters":[1,0,1,1],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,1],"step":2},"digest":"44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407","id":"application 2","input":{"group":"women","id":"application 2","op":"decide","recommendation":0},"output":{"certificate":{"advisory":false,"assumption":null,"assumption_held":null,"attained":false,"bias":0.0,"bias_shielded":0.0,"bias_unshielded":0.0,"bound":0.2,"bound_exact":"1/5","bound_later":null,"horizon":40,"how":"every run of this shield ends fair (Theorem 1)","how_later":null,"kappa":"1/5","kind":"shield-certificate","open_labels":0,"period":0,"property":"the acceptance rates of the groups differ by at most 0.2","step":3},"decision":0,"guaranteed":true,"intervened":false,"reason":"followed"}}', 'ade8a51e0555c0436cc1f87ab31ad3bf8ce1319cf759c65ebc6400b9526f8999', '176087dfdb6b5e9516c061af97d9892d42fbc3582084426127e97cdc5ca9485c');
INSERT INTO public.pictures VALUES ('a', 2, 'ppppppppppppppppppppppppppppppppppppppppppp', 1767225602, 'image/png', '\x89504e47206f6e65');
INSERT INTO public.streams VALUES ('a', 'counting', '0000000000000000000000000000000000000000000000000000000000000000', 8, '16b3117becbad3bd39c29c36db32914cc999e9d66ef65f4fcc7d5e36f2b78884', '{"total": 16, "open": {"6": "one"}}');
INSERT INTO public.streams VALUES ('b', 'counting', '0000000000000000000000000000000000000000000000000000000000000000', 1, 'bc8939876c3e1434d997b971c8563dc9ec57cea0ace669c868271e4dae44af72', '{"total": 1, "open": {}}');
INSERT INTO public.streams VALUES ('loans', 'shield', '44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407', 3, '176087dfdb6b5e9516c061af97d9892d42fbc3582084426127e97cdc5ca9485c', '{"shield": {"format": "evenhand-shield-state", "version": 1, "policy": "44f855ca26a74f87d4fbf1ab4629def447c8dc2566a8fefed608e4bd1f0b9407", "advisory": false, "course": {"step": 3, "counters": [2, 0, 1, 1], "recommended": [0, 1], "open": [0, 0, 0, 0, 0, 0, 0, 0], "prompt": true}, "interventions": 0, "cost": 0.0, "ids": [], "checksum": "efaf30e0b47c0df7039290839ea23757e184f50989a5f39ba7deac7b5c7d393d"}, "certificate": {"kind": "shield-certificate", "property": "the acceptance rates of the groups differ by at most 0.2", "kappa": "1/5", "step": 3, "horizon": 40, "period": 0, "bias": 0.0, "bias_shielded": 0.0, "bias_unshielded": 0.0, "open_labels": 0, "bound": 0.2, "bound_exact": "1/5", "attained": false, "bound_later": null, "how": "every run of this shield ends fair (Theorem 1)", "how_later": null, "advisory": false, "assumption": null, "assumption_held": null}}');
INSERT INTO public.versions VALUES (2);
ALTER TABLE ONLY public.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (stream, id);
ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (stream, number);
ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (stream, number);
ALTER TABLE ONLY public.pictures
    ADD CONSTRAINT pictures_id_key UNIQUE (id);
ALTER TABLE ONLY public.pictures
    ADD CONSTRAINT pictures_pkey PRIMARY KEY (stream, number);
ALTER TABLE ONLY public.replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.streams
    ADD CONSTRAINT streams_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (version);
CREATE UNIQUE INDEX answers_by_number ON public.answers USING btree (stream, number);
CREATE INDEX entries_by_time ON public.entries USING btree (at);
CREATE INDEX pictures_by_time ON public.pictures USING btree (at);
