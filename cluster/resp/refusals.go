package resp

import (
	"fmt"
	"strconv"
	"strings"
)

// otherTypes are Redis's commands on other types that change nothing if their keys are absent. Each
// has its name, the arity, the last key, and the reply for absent keys. A key that is there has a
// string.
const otherTypes = `
	hget 3 1 null       hmget -3 1 nulls      hgetall 2 1 map     hexists 3 1 zero
	hkeys 2 1 array     hvals 2 1 array       hlen 2 1 zero       hstrlen 3 1 zero
	hdel -3 1 zero      hscan -3 1 scan       llen 2 1 zero       lrange 4 1 array
	lindex 3 1 null     lpop -2 1 null        rpop -2 1 null      lrem 4 1 zero
	ltrim 4 1 ok        lpushx -3 1 zero      rpushx -3 1 zero    lpos -3 1 null
	scard 2 1 zero      smembers 2 1 set      sismember 3 1 zero  srandmember -2 1 null
	spop -2 1 null      srem -3 1 zero        sscan -3 1 scan     sinter -2 -1 set
	sunion -2 -1 set    sdiff -2 -1 set       zcard 2 1 zero      zrange -4 1 array
	zscore 3 1 null     zcount 4 1 zero       zrank -3 1 null     zrevrank -3 1 null
	zrem -3 1 zero      zrevrange -4 1 array  zscan -3 1 scan     zrangebyscore -4 1 array
	xlen 2 1 zero       xrange -4 1 array     xdel -3 1 zero      xrevrange -4 1 array`

// otherTypeCommands gives the commands of otherTypes. COMMAND does not list them.
func otherTypeCommands() []*command {
	fields := strings.Fields(otherTypes)
	var commands []*command
	for ; len(fields) > 0; fields = fields[4:] {
		arity, _ := strconv.Atoi(fields[1])
		last, _ := strconv.Atoi(fields[2])
		commands = append(commands, &command{name: fields[0], arity: arity, kind: reads, first: 1,
			last: last, step: 1, reply: replyAbsent(fields[3])})
	}
	return commands
}

// replyAbsent makes the reply for absent keys of another type.
func replyAbsent(kind string) func(c *client, r *request, values [][]byte) error {
	return func(c *client, r *request, values [][]byte) error {
		for _, value := range values {
			if value != nil {
				return errWrongType
			}
		}
		switch kind {
		case "null":
			c.null()
		case "nulls":
			c.array(len(r.arguments) - 2)
			for range r.arguments[2:] {
				c.null()
			}
		case "map":
			c.beginMap(0)
		case "set":
			c.set(0)
		case "scan":
			c.array(2)
			c.word("0")
			c.array(0)
		case "zero":
			c.integer(0)
		case "ok":
			c.ok()
		default:
			c.array(0)
		}
		return nil
	}
}

// notServed are commands of Redis with the reason why they are none here.
var notServed = reasons(map[string]string{
	`setnx msetnx getset getdel getex append setrange setbit incr decr incrby decrby incrbyfloat
		rename renamenx copy`: "it depends on what is there, which no write here does",
	"watch": "it makes writes depend on what was read, which no write here does",
	`setex psetex expire pexpire expireat pexpireat persist`: "nothing expires here",
	"flushall flushdb": "no command deletes all keys",
	`hset hmset hsetnx hincrby hincrbyfloat lpush rpush lset linsert blpop brpop lmove rpoplpush sadd
		smove sinterstore sunionstore sdiffstore zadd zincrby zpopmin zpopmax zrangestore xadd xread
		pfadd pfcount geoadd`: "every value is a string",
	"subscribe psubscribe ssubscribe publish spublish monitor":       "there are no channels",
	"eval eval_ro evalsha evalsha_ro fcall fcall_ro script function": "there are no scripts",
})

func reasons(groups map[string]string) map[string]string {
	byName := map[string]string{}
	for names, reason := range groups {
		for _, name := range strings.Fields(names) {
			byName[name] = reason
		}
	}
	return byName
}

// unknown is the reply to a command that is not in the table.
func unknown(arguments [][]byte) error {
	name := clip(arguments[0])
	if reason, known := notServed[strings.ToLower(name)]; known {
		return replyError("ERR " + strings.ToUpper(name) + " is not served: " + reason)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "ERR unknown command '%s', with args beginning with: ", name)
	for _, argument := range arguments[1:min(len(arguments), 4)] {
		fmt.Fprintf(&text, "'%s' ", clip(argument))
	}
	return replyError(text.String())
}
