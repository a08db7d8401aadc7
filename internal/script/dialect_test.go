package script_test

import (
	"errors"
	"testing"

	"github.com/mortise-go/mortise/driver"
)

// replies are scripts with the key k and the arguments a and b, and their replies.
var replies = map[string]string{
	`return nil`:              `nil`,
	`return false`:            `nil`,
	`return true`:             `1`,
	`return 3.99`:             `3`,
	`return -3.99`:            `-3`,
	`return 9007199254740992`: `9007199254740992`,
	`return {}`:               `[]`,
	`return {1, 2, nil, 4}`:   `[1 2]`,
	`return {1, {'x', {}}, false, true, 3.7}`:                                                               `[1 ["x" []] nil 1 3]`,
	`return {one = 1, 2}`:                                                                                   `[2]`,
	`return {ok = 'fine'}`:                                                                                  `"fine"`,
	`return redis.status_reply('fine')`:                                                                     `"fine"`,
	`return 'a\0\r\n\255'`:                                                                                  `"a\x00\r\n\xff"`,
	`return {KEYS[1], ARGV[2], #KEYS, #ARGV}`:                                                               `["k" "b" 1 2]`,
	`return redis.call('get', 'none')`:                                                                      `nil`,
	`return redis.call('get', 'none') == false`:                                                             `1`,
	`return redis.call('hmget', KEYS[1], 'f', 'none', 'g')`:                                                 `["1" nil "2"]`,
	`return redis.call('hmget', KEYS[1], 'none')[1] == false`:                                               `1`,
	`return redis.call('type', KEYS[1]).ok`:                                                                 `"hash"`,
	`return redis.call('set', 'other', 1)`:                                                                  `"OK"`,
	`return type(redis.call('set', 'other', 1))`:                                                            `"table"`,
	`return redis.call('hincrby', KEYS[1], 'f', 0) + 1`:                                                     `2`,
	`return redis.call('hset', KEYS[1], 'f', 1.0, 'g', 2)`:                                                  `0`,
	`return redis.call('hincrby', KEYS[1], 'f', 9007199254740992 - 9007199254740992)`:                       `1`,
	`return string.sub(redis.pcall('get', KEYS[1]).err, 1, 9)`:                                              `"WRONGTYPE"`,
	`return type(redis.pcall('nosuchcommand').err)`:                                                         `"string"`,
	`return {tostring(pcall(redis.call, 'get', KEYS[1]))}`:                                                  `["false"]`,
	`table.sort(ARGV, function(a, b) return a > b end) return ARGV`:                                         `["b" "a"]`,
	`return math.floor(7 / 2) .. string.format('%05d', 42) .. tonumber('0x10')`:                             `"30004216"`,
	`return tonumber('1e3') + tonumber(' 7 ') + tonumber('-0x10') + tonumber('ff', 16)`:                     `1246`,
	`return {tonumber('inf') == math.huge, tonumber('-inf') == -math.huge, tonumber('1e999') == math.huge}`: `[1 1 1]`,
	`return {tonumber('') == nil, tonumber('1e') == nil, tonumber('x') == nil, tonumber(7) == 7}`:           `[1 1 1 1]`,
	`return {string.match('a:b:1', '^(.*):(%d+)$')}`:                                                        `["a:b" "1"]`,
	`local all = {} for w in string.gmatch('x,y', '[^,]+') do all[#all + 1] = w end return {unpack(all)}`:   `["x" "y"]`,
}

// refusals are scripts with the key k, and the class of the error that they end with.
var refusals = map[string]driver.Class{
	`return redis.call('get', KEYS[1])`:                  driver.WrongType,
	`return {1, redis.pcall('get', KEYS[1])}`:            driver.WrongType,
	`return redis.error_reply('READONLY no')`:            driver.ClassifyReply("READONLY no"),
	`return {err = 'READONLY no'}`:                       driver.ClassifyReply("READONLY no"),
	`return redis.call('nosuchcommand')`:                 driver.Other,
	`return redis.call('hincrby', KEYS[1], 'f', 'none')`: driver.Other,
	`return redis.call()`:                                driver.Other,
	`return redis.call('get', {})`:                       driver.Other,
	`return redis.call('get', nil)`:                      driver.Other,
	`return redis.call('eval', 'return 1', 0)`:           driver.Other,
	`error('no')`:           driver.Other,
	`return nothing.field`:  driver.Other,
	`return undefined`:      driver.Other,
	`global = 1`:            driver.Other,
	`function global() end`: driver.Other,
	`return 'unclosed`:      driver.Other,
	`local function f() return 1 + f() end return f()`:     driver.Other,
	`return os.getenv('HOME')`:                             driver.Other,
	`return io.open('/etc/passwd')`:                        driver.Other,
	`return loadfile('/etc/passwd')`:                       driver.Other,
	`return dofile('/etc/passwd')`:                         driver.Other,
	`return require('os')`:                                 driver.Other,
	`redis.call('hset', KEYS[1], 'h', 1) return undefined`: driver.Other,
	`return KEYS[1] + 1`:                                   driver.Other,
}

// What scripts get from Redis and give it is the same on the embedded one, which runs them with a Lua of its own.
func TestDialect(t *testing.T) {
	everywhere(t, single(t), func(t *testing.T, w *world) {
		run := func(source string, keys, args []string) (string, error) {
			v, err := w.Eval(t.Context(), driver.Call{Script: driver.NewScript("dialect", source), Keys: keys, Args: args})
			return v.String(), err
		}
		for source, want := range replies {
			w.must(t, "HSET", "k", "f", "1", "g", "2")
			if got, err := run(source, []string{"k"}, []string{"a", "b"}); err != nil || got != want {
				t.Errorf("%s\nis %s, %v, want %s", source, got, err, want)
			}
		}
		for source, want := range refusals {
			v, err := run(source, []string{"k"}, nil)
			if refused, ok := errors.AsType[*driver.Error](err); !ok || refused.Class != want || refused.Reply == "" {
				t.Errorf("%s\nis %s, %v, want an error reply of class %v", source, v, err, want)
			}
			// An error leaves nothing behind, but what was written before it.
			if got, err := run(`return {#KEYS, #ARGV, ARGV[1], redis.call('hget', 'k', 'f')}`, nil, []string{"x"}); err != nil || got != `[0 1 "x" "1"]` {
				t.Errorf("after %s\ncomes %s, %v", source, got, err)
			}
		}
		if got := w.must(t, "HGET", "k", "h").Str(); got != "1" {
			t.Errorf("what was written before an error is %q, want 1", got)
		}
	})
}
