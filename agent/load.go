package agent

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/jail"
)

// maxConfigFile bounds the configuration file, in bytes.
const maxConfigFile = 1 << 20

// Flags are the agent's flags: --config, and one for every key. All take a value, also those that are true or false.
func Flags() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{Name: "config", EnvVars: []string{"TOLBOOTH_CONFIG"}, Usage: "YAML `FILE` with any of these settings; flags and environment win over it"}}
	defaults := DefaultConfig()
	for _, k := range keys() {
		flags = append(flags, &cli.StringFlag{
			Name: k.flag(), EnvVars: []string{k.variable()}, Usage: k.usage, DefaultText: textOf(k.into(&defaults)),
		})
	}
	return flags
}

// LoadConfig reads the settings of one invocation: flag over environment over file over default. An empty value is the
// same as none, since that is what charts and compose files make of an unset one. The first thing that is wrong is the
// error, naming the key and what would be right.
func LoadConfig(ctx *cli.Context) (Config, error) {
	c := DefaultConfig()
	c.set = map[string]bool{}
	if path := ctx.String("config"); path != "" {
		if err := c.readFile(path); err != nil {
			return c, err
		}
	}
	for _, k := range keys() {
		if text := ctx.String(k.flag()); ctx.IsSet(k.flag()) && text != "" {
			if err := c.assign(k, text); err != nil {
				return c, err
			}
		}
	}
	return c, c.check()
}

// readFile takes over a YAML file. A key that does not exist is an error, as is one given twice.
func (c *Config) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return fmt.Errorf("stat configuration: %w", err)
	} else if info.Size() > maxConfigFile {
		return fmt.Errorf("configuration file %s is larger than %d bytes", path, maxConfigFile)
	}
	var document yaml.Node
	if err := yaml.NewDecoder(f).Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("parse configuration %s: %w", path, err)
	}
	flat := map[string]string{}
	for _, root := range document.Content {
		if err := flatten("", root, flat); err != nil {
			return fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	for _, k := range keys() {
		if text, ok := flat[k.name]; ok {
			delete(flat, k.name)
			if text == "" {
				continue
			}
			if err := c.assign(k, text); err != nil {
				return fmt.Errorf("configuration %s: %w", path, err)
			}
		}
	}
	for name := range flat {
		return fmt.Errorf("configuration %s: there is no key %q", path, name)
	}
	return nil
}

// flatten turns nested maps into dotted names and lists into comma-separated text. It takes scalars as they are written:
// a token of digits is not a number.
func flatten(name string, n *yaml.Node, into map[string]string) error {
	value := n.Value
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			below := n.Content[i].Value
			if name != "" {
				below = name + "." + below
			}
			if err := flatten(below, n.Content[i+1], into); err != nil {
				return err
			}
		}
		return nil
	case yaml.SequenceNode:
		var parts []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: %s: only plain values can be listed", item.Line, name)
			}
			parts = append(parts, item.Value)
		}
		value = strings.Join(parts, ",")
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			value = ""
		}
	default:
		return fmt.Errorf("line %d: %s: anchors and aliases are not understood", n.Line, name)
	}
	if _, twice := into[name]; twice {
		return fmt.Errorf("line %d: %s is given twice", n.Line, name)
	}
	into[name] = value
	return nil
}

// assign reads one value.
func (c *Config) assign(k key, text string) error {
	if k.words != nil && !slices.Contains(k.words, text) {
		return k.wrong(fmt.Errorf("%.64q is not one of: %s", text, strings.Join(k.words, ", ")))
	}
	if err := parseInto(k.into(c), text); err != nil {
		return k.wrong(err)
	}
	c.set[k.name] = true
	return nil
}

func (k key) wrong(err error) error {
	return fmt.Errorf("%s (key %s, flag --%s): %w", k.variable(), k.name, k.flag(), err)
}

// parseInto reads text as the type that field points to.
func parseInto(field any, text string) (err error) {
	switch f := field.(type) {
	case *string:
		*f = text
	case *jail.Mode:
		*f = jail.Mode(text)
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%.64q is not one of: true, false", text)
		}
		*f = text == "true"
	case *int:
		*f, err = strconv.Atoi(text)
	case *int64:
		*f, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*f, err = strconv.ParseFloat(text, 64)
	case *api.Quantity:
		*f, err = api.ParseQuantity(text)
	case *api.Duration:
		*f, err = api.ParseDuration(text)
	case *time.Duration:
		var d api.Duration
		d, err = api.ParseDuration(text)
		*f = time.Duration(d)
	case *seconds:
		*f, err = parseSeconds(text)
	case *netip.Prefix:
		*f, err = parsePrefix(text)
	case *[]netip.Prefix:
		*f, err = parsePrefixes(text)
	case *[]string:
		for part := range strings.SplitSeq(text, ",") {
			*f = append(*f, strings.TrimSpace(part))
		}
	default:
		panic(fmt.Sprintf("no reader for a setting of type %T", field))
	}
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		return fmt.Errorf("%.64q is not a number: %w", text, n.Err)
	}
	return err
}

func parseSeconds(text string) (seconds, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
		return seconds(time.Duration(n) * time.Second), nil
	}
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%.64q is neither a number of seconds nor a duration", text)
	}
	return seconds(d), nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%.64q is not an address range such as 10.96.0.0/12", text)
	}
	return p, nil
}

func parsePrefixes(text string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		p, err := parsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// textOf is what parseInto reads.
func textOf(field any) string {
	switch f := field.(type) {
	case *seconds:
		return strconv.FormatInt(int64(time.Duration(*f)/time.Second), 10)
	case *time.Duration:
		return api.Duration(*f).String()
	case *api.Duration:
		return f.String()
	case *api.Quantity:
		return f.String()
	case *string:
		return *f
	case *jail.Mode:
		return string(*f)
	case *bool:
		return strconv.FormatBool(*f)
	case *int:
		return strconv.Itoa(*f)
	case *int64:
		return strconv.FormatInt(*f, 10)
	case *float64:
		return strconv.FormatFloat(*f, 'g', -1, 64)
	case *netip.Prefix:
		return f.String()
	case *[]string:
		return strings.Join(*f, ",")
	case *[]netip.Prefix:
		var parts []string
		for _, p := range *f {
			parts = append(parts, p.String())
		}
		return strings.Join(parts, ",")
	}
	return ""
}
