package rueidis

import "testing"

func TestSlotOf(t *testing.T) {
	// The slots come from CLUSTER KEYSLOT.
	tests := map[string]int{
		"": 0, "foo": 12182, "{foo}": 12182, "x{foo}y{bar}": 12182, "{}foo": 9500, "foo{}{bar}": 8363,
		"123456789": 12739, "a{b": 13340, "{{foo}}": 13308,
	}
	for key, want := range tests {
		if got := slotOf(key); got != want {
			t.Errorf("slotOf(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestFullAddr(t *testing.T) {
	tests := []struct{ addr, asked, want string }{
		{"10.0.0.1:7000", "h:1", "10.0.0.1:7000"},
		{":7000", "h:1", "h:7000"},
		{":7000", "[::1]:1", "[::1]:7000"},
		{"nonsense", "h:1", "nonsense"},
	}
	for _, tt := range tests {
		if got := fullAddr(tt.addr, tt.asked); got != tt.want {
			t.Errorf("fullAddr(%q, %q) = %q, want %q", tt.addr, tt.asked, got, tt.want)
		}
	}
}
